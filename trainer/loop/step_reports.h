// What each step has come to, over all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include <ddprun/mesh.h>
#include "base/failure.h"
#include "base/log.h"
#include "trainer/compute/device.h"
#include "trainer/job/job.h"
#include "trainer/job/step_plan.h"
#include "trainer/loop/step_boundary.h"
#include "trainer/parallel/virtual_ranks.h"
#include "trainer/report/meter.h"
#include "trainer/report/observer.h"
#include "trainer/state/state_dict.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

// Of one logical rank and one step.
struct StepSums {
  DeviceScalar loss;  // over the predictions
  int64_t samples = 0;
  int64_t predictions = 0;
};

// Of one process and one step.
struct StepResult {
  StepReport report = {};            // what the process knows of it alone; times are the host's
  std::vector<StepSums> sums = {};   // of its logical ranks
  DeviceScalar grad_norm = {};       // of the averaged gradients, before clipping
  double pipeline_wait_seconds = 0;  // waiting for other stages
  bool diverged = false;             // nothing was updated, for the gradients are no numbers
};

// One thread.
class StepReports {
 public:
  // `ranks`: SummedRanks().
  StepReports(const Job& job, const StepPlan& plan, const RankShare& ranks, const Mesh& mesh)
      : job_(job), plan_(plan), ranks_(ranks), control_(mesh.control), device_(mesh.device) {}

  // Adds a step for the next Report(), and logs it for reports of hangs.
  void Add(const StepResult& result, const Log& log);

  // A collective before the update of the step, which is not added yet: sums its losses and the
  // votes, for the next Report(), which has nothing else to sum then.
  void SumBeforeUpdate(const StepResult& result, const Votes& own);

  // Whether gradients of this norm are to end the run instead of updating anything, on all ranks
  // alike. Where a device would be waited for, or ranks have gradients of their own, Report() finds
  // out.
  bool HasDiverged(const Strategy& strategy, const DeviceScalar& grad_norm) const;

  // A collective: sums what was added since the last time over all ranks, which have added the same
  // steps, and tells the observers, which may be nullptr. Returns what any rank has voted for.
  // Throws FailureOfAllRanks for a loss or gradients that are no numbers, where the config wants
  // that. Without
  // `wait` the steps are left to a later call: a device may still compute them.
  Votes Report(const Observers* observers, const Votes& own = {}, bool wait = true);

  // Between two steps, when all of them have been told.
  void NameState(StateVisitor& visitor);
  // And the last report, which rank 0 may not have told when it was lost.
  void NameUnsaved(StateVisitor& visitor);
  const StepReport& last() const { return last_; }

  // Whether the config wants the step told: the first, the last and every logging_steps-th.
  bool IsReported(int64_t step) const;

 private:
  const Job& job_;
  const StepPlan plan_;
  const RankShare ranks_;
  const c10::intrusive_ptr<c10d::Backend> control_;
  const c10::Device device_;
  std::vector<StepResult> results_;
  at::Tensor summed_;       // of SumBeforeUpdate
  MeanMeter loss_;          // since the last step that was told
  double run_seconds_ = 0;  // of all steps, also of earlier starts
  StepReport last_;         // of the steps that were told
};

}  // namespace ddprun::trainer
