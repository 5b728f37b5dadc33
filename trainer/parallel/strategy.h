// How a model is trained on the devices of a job. The loop knows no more than this.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "trainer/models/model.h"
#include "trainer/optim/optimizer.h"
#include "trainer/parallel/model_averager.h"
#include "trainer/parallel/module_sync.h"
#include "trainer/parallel/sharded_update.h"
#include "trainer/report/observer.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// What `model`, the strategy's own or a copy of it, loses on a micro-batch of the step: weighted so
// that the gradients, averaged over the ranks and added up over the micro-batches, are the step's.
using LossFunction =
    std::function<at::Tensor(Model& model, const Batch& batch, size_t micro_batch)>;

// Runs `forward`, the `part`-th part of a model, on its device for a micro-batch of the step: with
// the job's precision and with random numbers of that part's own.
using PartFunction = std::function<at::Tensor(
    size_t micro_batch, int part, c10::Device device, const std::function<at::Tensor()>& forward)>;

struct StepInputs {
  int64_t step = 1;  // 1 for the first; for messages
  DeviceScalar learning_rate = 0;
  std::span<const Batch> micro_batches = {};  // of this rank
  LossFunction loss = {};
  PartFunction part = {};  // of models that are computed in parts; the last one's calls `loss`
};

struct Evaluated {
  at::Tensor loss;          // the mean over batch.predictions; only where Mesh::counts()
  at::Tensor outputs = {};  // undefined unless asked for
};

// One step: ForwardBackward(), ScaleGradients() and ClipGradients() if that is wanted, and Step()
// unless the gradients are not finite. One thread; all ranks call the same methods, which throw
// Failure when a collective fails.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Forgets the gradients of the step before and computes those of this one, of all ranks' batches.
  virtual void ForwardBackward(const StepInputs& inputs) = 0;
  // Of the trained parameters, in their order, for the global batch; undefined where none came.
  // Waits for those still being reduced; valid until Step().
  virtual std::vector<at::Tensor> Gradients() = 0;
  // Multiplies the gradients of the global batch, on this rank; before the next two.
  virtual void ScaleGradients(double factor);
  // The 2-norm of the gradients of the global batch; waits for those still being reduced.
  virtual DeviceScalar GradientNorm() = 0;
  // Scales the gradients so that their norm is at most max_norm; returns the one from before.
  virtual DeviceScalar ClipGradients(double max_norm) = 0;
  // Updates what has not been updated in backward. After a failure some parameters may be updated.
  virtual void Step() = 0;
  // After the last step: all ranks have the model that counts.
  virtual void Finish() {}
  // Whether this rank has all of the model that is in its part of the mesh (one tensor and one
  // pipeline rank's), between two steps; the same on all ranks.
  virtual bool holds_whole_model() const { return true; }
  // Before the model is evaluated.
  virtual void BeforeEvaluation() {}
  // A batch without gradients, of a model in eval mode.
  virtual Evaluated EvaluateBatch(Model& model, const Batch& batch, bool with_outputs);
  // Whether EvaluateBatch() is a collective: then all ranks of the data axis call it equally often.
  virtual bool evaluates_together() const { return false; }
  // Whether the gradients of the coming step are averaged over all ranks; false: each rank takes a
  // step of its own with those of its own micro-batches.
  virtual bool averages_gradients() const { return true; }
  // After the step: whether all ranks have waited for each other in it.
  virtual bool ranks_met() const { return true; }
  // Tells what it has found out in `step` steps, once; on rank 0.
  virtual void Report(const Observers& /*observers*/, int64_t /*step*/) {}
  // Names, between two steps, all that the steps to come depend on: "model.", "optimizer.", "hook."
  // and "averager." something. May be loaded before the first step, on all ranks alike.
  virtual void NameState(StateVisitor& visitor) = 0;
  StateDict State() {
    return SaveState([this](StateVisitor& visitor) { NameState(visitor); });
  }
  // A collective, where a rank was lost and another process has made its strategy
  // (ModuleSync::Options::rejoins): the step under way may be done again. The state stays; what the
  // groups did of the step is dropped. `giver`: a rank that has been in it.
  virtual void Rejoin(int giver);
  // What the last step spent waiting for communication, in seconds.
  virtual double exposed_seconds() const { return 0; }
  // What it spent waiting for other stages of a pipeline.
  virtual double pipeline_wait_seconds() const { return 0; }
};

// One process, one device; or, where the model has parts of layers, the ranks of the tensor axis.
std::unique_ptr<Strategy> MakeSingle(std::shared_ptr<Model> model,
                                     std::unique_ptr<Optimizer> optimizer,
                                     const Mesh& mesh = {});

struct DataParallelOptions {
  ModuleSync::Options sync = {};
  // The optimizer steps within backward, bucket by bucket.
  bool update_in_backward = false;
  // Also average the parameters; for comm_hook MakePostLocalSgdHook.
  std::optional<PeriodicModelAverager::Options> averaging = {};
  // > 0: gradients are averages over so many virtual ranks (virtual_ranks.h), of which this rank
  // computes its share. Not together with a comm_hook, averaging, or buffers that are not kept
  // equal. Of `count` own ones, micro-batch i is that of the own virtual rank i % count.
  int64_t virtual_ranks = 0;
  // Not nullptr: this rank updates these parameters of the model only, those that the optimizer has
  // (MakeZero). Not together with updates before all gradients are there, or averaging.
  std::shared_ptr<ShardedUpdate> shards = {};
};

// DistributedDataParallel: the same model on every rank, gradients averaged. A collective: checks
// that the models agree and copies rank 0's parameters and buffers to the others; later its buffers
// before every step and evaluation.
std::unique_ptr<Strategy> MakeDistributedDataParallel(std::shared_ptr<Model> model,
                                                      std::unique_ptr<Optimizer> optimizer,
                                                      const Mesh& mesh,
                                                      const DataParallelOptions& options);

}  // namespace ddprun::trainer
