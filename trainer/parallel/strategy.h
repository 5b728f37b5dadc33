// How a model is trained on several devices. The loop knows no more than this.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/parallel/model_averager.h"
#include "trainer/parallel/reducer.h"
#include "trainer/report/run_reporter.h"

namespace ddprun::trainer {

// One step: BeginStep(), then for every micro-batch PrepareBackward() and backward(); then
// ClipGradients(), if that is wanted, and update the parameters as UpdateReady() names them. One
// thread.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Forgets the gradients of the step before.
  virtual void BeginStep() = 0;
  // `last`: after this backward the gradients are those of the global batch.
  virtual void PrepareBackward(bool last) = 0;
  // The 2-norm of the gradients of the global batch; waits for those still being reduced.
  virtual double GradientNorm() = 0;
  // Scales the gradients so that their norm is at most max_norm; returns the one from before.
  virtual double ClipGradients(double max_norm) = 0;
  // Calls `update` with parameters whose gradients are those of the global batch: once with all, or
  // bucket by bucket, the next one being reduced meanwhile; with Options::update_in_backward not at
  // all. Throws Failure when a collective fails;
  // some parameters may have been updated then.
  virtual void UpdateReady(const Reducer::Ready& update) = 0;
  // After the last step, on all ranks: all have the model that counts. Throws Failure.
  virtual void Finish() = 0;
  // Before the model is evaluated, on all ranks.
  virtual void BeforeEvaluation() = 0;
  // Whether the gradients of this step are averaged over all ranks; false: each rank takes a step
  // of its own with those of its own micro-batches.
  virtual bool averages_gradients() const { return true; }
  // After the step: whether all ranks have waited for each other in it.
  virtual bool ranks_met() const { return true; }
  // Tells what it has found out in `step` steps, once; on rank 0.
  virtual void Report(RunReporter& /*reporter*/, int64_t /*step*/) {}
  // What the last step spent waiting for communication, in seconds.
  virtual double exposed_seconds() const = 0;
};

// One process, one device.
std::unique_ptr<Strategy> MakeSingle(std::vector<NamedParameter> parameters);

struct DataParallelOptions {
  Reducer::Options reducer = {};
  bool broadcast_buffers = true;  // rank 0's, before every step and evaluation
  // Also average the parameters; for comm_hook MakePostLocalSgdHook.
  std::optional<PeriodicModelAverager::Options> averaging = {};
};

// DistributedDataParallel: the same model on every rank, gradients averaged. A collective: checks
// that the models agree and copies rank 0's parameters and buffers to the others.
std::unique_ptr<Strategy> MakeDistributedDataParallel(std::vector<NamedParameter> parameters,
                                                      std::vector<NamedParameter> buffers,
                                                      c10::intrusive_ptr<c10d::Backend> group,
                                                      const DataParallelOptions& options);

}  // namespace ddprun::trainer
