// Steps that a device's graph replays: recorded once, each is one launch from then on.
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

// A recorded step holds for batches of one form: shapes, predictions, padding. What else changes
// from step to step, tokens and the learning rate, it reads from memory of the device. One thread.
class StepGraph {
 public:
  // All that the host keeps of a step; on the device.
  struct Results {
    DeviceScalar loss;
    DeviceScalar grad_norm;
  };
  // Queues a whole step: forward, backward, update. It may be called once, or never.
  using Step = std::function<Results(const Batch& batch, const DeviceScalar& learning_rate)>;

  // nullptr where the config wants none, or where the job's steps cannot be recorded, which rank 0
  // says. As long as it lives the thread's current stream is one of its own: the model has to be
  // made there, as autograd adds gradients up on the stream on which it first sees them.
  static std::unique_ptr<StepGraph> Make(const Job& job, const Mesh& mesh, const Log& log);
  // `classes`: what targets are below.
  StepGraph(int64_t classes, const Mesh& mesh, const Log& log);

  // Whether Launch() takes this step, on all ranks; where not, it is queued as always. A
  // collective, as Launch() is. `total_predictions`: of all ranks.
  bool Takes(const Batch& batch, double total_predictions, int64_t step);
  // nullopt: the step could not be recorded, and is to be queued as always; so are all that follow.
  std::optional<Results> Launch(const Batch& batch, double learning_rate, const Step& step);

 private:
  struct Form {
    Batch batch;
    double total_predictions = 0;
  };

  static bool Same(const Form& a, const Form& b);
  bool Record(const Step& step);
  void Say(const std::string& text) const;

  const int64_t classes_;
  const Mesh mesh_;
  const Log log_;
  const c10::StreamGuard stream_;
  int64_t steps_ = 0;         // that came by
  std::optional<Form> form_;  // of the recorded step; before, of the last one
  bool given_up_ = false;
  bool said_other_form_ = false;
  std::vector<at::Tensor> host_copies_;
  at::Tensor learning_rate_;  // float64
  at::Tensor results_;        // float64: loss, norm
  // After what it uses: it goes first.
  std::unique_ptr<DeviceGraph> graph_;
};

// Returns forward, backward and update of a step, for StepGraph::Launch(). 0: no clipping.
StepGraph::Step StepToRecord(
    const Step& step,
    double max_grad_norm,
    std::function<at::Tensor(Model& model, const Batch& batch, StepSums& sums)> loss);

}  // namespace ddprun::trainer
