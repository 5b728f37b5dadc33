// The interface of strategies, which train a model on the devices of a job, to the training loop.
#pragma once

#include <functional>
#include <span>

#include <ddprun/optimizer.h>
#include "trainer/models/model.h"
#include "trainer/report/observer.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Returns the loss of `model`, which is the strategy's model or a copy of it, on a micro-batch of
// the step. Losses are weighted so that the gradients, averaged over the ranks and summed over the
// micro-batches, are those of the step.
using LossFunction =
    std::function<at::Tensor(Model& model, const Batch& batch, size_t micro_batch)>;

// Runs `forward`, which is part `part` of a model, on its device for a micro-batch of the step,
// with the job's precision and with this part's own random numbers.
using PartFunction = std::function<at::Tensor(
    size_t micro_batch, int part, c10::Device device, const std::function<at::Tensor()>& forward)>;

struct StepInputs {
  int64_t step = 1;  // 1 for the first; for messages
  DeviceScalar learning_rate = 0;
  std::span<const Batch> micro_batches = {};  // of this rank
  LossFunction loss = {};
  PartFunction part = {};  // for models computed in parts; the last part calls `loss`
};

struct BatchEvaluation {
  at::Tensor loss;          // the mean over batch.predictions; only if Mesh::adds_to_sums()
  at::Tensor outputs = {};  // undefined unless requested
};

// The calls of a step: ForwardBackward(), ScaleGradients() and ClipGradients() if wanted, and
// Step() unless the gradients are not finite. One thread. All ranks call the same methods, which
// throw Failure if a collective fails.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Forgets the gradients of the step before, and computes the gradients of all ranks' batches.
  virtual void ForwardBackward(const StepInputs& inputs) = 0;
  // Returns the gradients of the trained parameters, in their order, for the global batch;
  // undefined where none came. Waits for running reductions. Valid until Step().
  virtual std::vector<at::Tensor> Gradients() = 0;
  // Multiplies the gradients of the global batch by `factor`, on this rank. Call it before
  // GradientNorm() and ClipGradients().
  virtual void ScaleGradients(double factor);
  // Returns the 2-norm of the gradients of the global batch. Waits for running reductions.
  virtual DeviceScalar GradientNorm() = 0;
  // Scales the gradients so that their norm is at most max_norm. Returns the norm before scaling.
  virtual DeviceScalar ClipGradients(double max_norm) = 0;
  // Updates the parameters that backward has not updated. If it fails, some may be updated.
  virtual void Step() = 0;
  // Exchanges parameters for their averages, or back, between two steps. A collective.
  virtual void SwapAverages() = 0;
  // Call it after the last step. Afterwards all ranks have the final model.
  virtual void Finish() {}
  // Returns whether, between two steps, this rank has all of the model that belongs to its tensor
  // and pipeline rank. Equal on all ranks.
  virtual bool holds_whole_model() const { return true; }
  // Prepares the model for an evaluation. A collective.
  virtual void BeforeEvaluation() {}
  // Evaluates a batch without gradients, with a model in eval mode.
  virtual BatchEvaluation EvaluateBatch(Model& model, const Batch& batch, bool with_outputs);
  // Returns whether EvaluateBatch() is a collective, which all data ranks then call equally often.
  virtual bool evaluates_together() const { return false; }
  // Returns whether the coming step averages gradients over all ranks. false: each rank steps with
  // the gradients of its own micro-batches.
  virtual bool averages_gradients() const { return true; }
  // Returns whether all ranks have waited for each other in the last step.
  virtual bool ranks_met() const { return true; }
  // Reports results of the first `step` steps, such as bucket sizes, once. Call it on rank 0.
  virtual void Report(const Observers& /*observers*/, int64_t /*step*/) {}
  // Names, between two steps, all state on which later steps depend, with the prefixes "model.",
  // "optimizer.", "hook." and "averager.". A checkpoint may be loaded before the first step, on all
  // ranks.
  virtual void NameState(StateVisitor& visitor) = 0;
  StateDict State() {
    return SaveState([this](StateVisitor& visitor) { NameState(visitor); });
  }
  // Prepares all ranks for a repeated step, after another process has replaced a lost rank
  // (ModuleSync::Options::rejoins). A collective. The state stays; the groups drop their part of
  // the step. `giver` is a rank that was in the step.
  virtual void Rejoin(int giver);
  // Returns this rank's parts of the parameters and of the optimizer's state, if ranks divide them.
  virtual std::vector<at::Tensor> OwnState() { return {}; }
  // Gives all ranks the parameters after each has set its OwnState(). A collective.
  virtual void ShareOwnState() {}
  // Returns the seconds that the last step waited for communication.
  virtual double exposed_seconds() const { return 0; }
  // Returns the seconds that the last step waited for other stages of a pipeline; < 0: unknown.
  virtual double pipeline_wait_seconds() const { return 0; }
};

}  // namespace ddprun::trainer
