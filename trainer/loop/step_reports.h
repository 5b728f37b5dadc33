// Sums the results of steps over all ranks, and reports them.
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

// The sums of one logical rank in one step.
struct StepSums {
  DeviceScalar loss;  // times its weight
  int64_t samples = 0;
  double weight = 0;  // Batch::LossWeight()
};

// The results of one process in one step.
struct StepResult {
  StepReport report = {};            // what the process alone knows; times are the host's
  std::vector<StepSums> sums = {};   // of its logical ranks
  DeviceScalar grad_norm = {};       // of the averaged gradients, before clipping
  double pipeline_wait_seconds = 0;  // waiting for other stages; < 0: unknown
  bool diverged = false;             // gradients are not finite, so nothing was updated
};

// One thread.
class StepReports {
 public:
  // `ranks` is SummedRanks().
  StepReports(const Job& job, const StepPlan& plan, const RankShare& ranks, const Mesh& mesh)
      : job_(job), plan_(plan), ranks_(ranks), mesh_(mesh) {}

  // Adds a step for the next Report(), and logs it for reports of hangs.
  void Add(const StepResult& result, const Log& log);

  // A collective. Sums the losses and votes of a step before it is added. The next Report() uses
  // these sums and needs no collective.
  void SumBeforeUpdate(const StepResult& result, const Votes& own);

  // Returns, equally on all ranks, whether gradients of this norm end the run before the update. If
  // the norm is on a device, or ranks have their own gradients, Report() checks them instead.
  bool HasDiverged(const Strategy& strategy, const DeviceScalar& grad_norm) const;

  // A collective. Sums the steps added since the last call over all ranks, reports them to
  // `observers` (may be nullptr), and returns the votes of all ranks. Without `wait`, leaves the
  // steps to a later call, because a device may still compute them. If the config says so, throws
  // FailureOfAllRanks for a loss or gradients that are not finite.
  Votes Report(const Observers* observers, const Votes& own = {}, bool wait = true);

  // Names the state between two steps, when all steps are reported.
  void NameState(StateVisitor& visitor);
  // Names the last report, which a lost rank 0 may not have written.
  void NameUnsaved(StateVisitor& visitor);
  const StepReport& last() const { return last_; }

  // Returns whether the step is reported: the first, the last, or every logging_steps-th step.
  bool IsReported(int64_t step) const;

 private:
  const Job& job_;
  const StepPlan plan_;
  const RankShare ranks_;
  const Mesh mesh_;
  std::vector<StepResult> results_;
  at::Tensor summed_;       // of SumBeforeUpdate
  MeanMeter loss_;          // since the last step that was reported
  double run_seconds_ = 0;  // of all steps, also of earlier starts
  StepReport last_;         // of the last step that was summed
};

}  // namespace ddprun::trainer
