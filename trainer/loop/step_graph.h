// Records a training step as a device's graph. Later steps are one launch of this graph.
#pragma once

#include <c10/core/StreamGuard.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ddprun/mesh.h>
#include "base/log.h"
#include "trainer/compute/device.h"
#include "trainer/job/job.h"
#include "trainer/loop/step_part.h"
#include "trainer/loop/step_reports.h"

namespace ddprun::trainer {

// A recorded step fits batches of one form: shapes, predictions, padding. It reads the values that
// change from step to step, tokens and the learning rate, from the device's memory. One thread.
class StepGraph {
 public:
  // All that the host keeps of a step. The values are on the device.
  struct Results {
    DeviceScalar loss;
    DeviceScalar grad_norm;
  };
  // Queues a whole step: forward, backward, update. It may be called once, or never.
  using Step = std::function<Results(const Batch& batch, const DeviceScalar& learning_rate)>;

  // Returns nullptr if the config wants no graph, or if the job's steps cannot be recorded; rank 0
  // logs why. While the StepGraph lives, the thread's current stream is its own. Make the model on
  // it, because autograd adds gradients on the stream on which it first sees them.
  static std::unique_ptr<StepGraph> Make(const Job& job, const Mesh& mesh, const Log& log);
  // Recorded targets must be less than `classes`.
  StepGraph(int64_t classes, const Mesh& mesh, const Log& log);

  // A collective. Returns whether all ranks may Launch() this step. If not, queue it as usual.
  // `total_weight` is the sum over all ranks.
  bool Takes(const Batch& batch, double total_weight, int64_t step);
  // Copies the learning rate to the memory where recorded steps read it. Queued steps use it, too:
  // the optimizer's kernels for such rates run before a step is recorded, and all steps have the
  // same precision.
  DeviceScalar RateOf(const DeviceScalar& rate);
  // A collective. Returns nullopt if recording failed: queue this and all later steps as usual.
  std::optional<Results> Launch(const Batch& batch, double learning_rate, const Step& step);

 private:
  struct Form {
    Batch batch;
    double total_weight = 0;
  };

  static bool Same(const Form& a, const Form& b);
  bool Record(const Step& step);
  void LogOnRankZero(const std::string& text) const;

  const int64_t classes_;
  const Mesh mesh_;
  const Log log_;
  const c10::StreamGuard stream_;
  int64_t steps_ = 0;         // that Takes() has seen
  std::optional<Form> form_;  // of the recorded step; before recording, of the last step
  bool given_up_ = false;
  bool logged_other_form_ = false;
  std::vector<at::Tensor> host_copies_;
  const at::Tensor learning_rate_;  // float64
  at::Tensor results_;              // float64: loss, norm
  // The graph is the last member, because it must be destroyed before the tensors that it uses.
  std::unique_ptr<DeviceGraph> graph_;
};

// Returns forward, backward and update of a step for Launch(). max_grad_norm 0: no clipping.
StepGraph::Step StepToRecord(
    const Step& step,
    double max_grad_norm,
    std::function<at::Tensor(Model& model, const Batch& batch, StepSums& sums)> loss);

}  // namespace ddprun::trainer
