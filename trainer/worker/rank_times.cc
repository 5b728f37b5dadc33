#include "trainer/worker/rank_times.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "base/step_phase.h"

namespace ddprun::trainer {

namespace {

// By the order of kOwnPhases.
constexpr std::array<StepPhase, kOwnPhases.size()> kPhases = {
    StepPhase::kData,   StepPhase::kForward, StepPhase::kBackward,
    StepPhase::kUpdate, StepPhase::kBetween, StepPhase::kSave};

bool IsOfHost(StepPhase phase) {
  return phase == StepPhase::kData || phase == StepPhase::kBetween || phase == StepPhase::kSave;
}

}  // namespace

bool RankTimes::IsDue(int64_t step, int64_t logging_steps) {
  constexpr int64_t kSteps = 10;
  return step % logging_steps == 0 && step / kSteps != (step - logging_steps) / kSteps;
}

void RankTimes::BeforeStep(const Step& step) {
  const OwnTimes times = TakeOwnTimes();
  for (size_t i = 0; i < kPhases.size() && is_warm_; ++i) {
    if (!mesh_.device.is_cpu() && !IsOfHost(kPhases[i])) continue;
    const auto phase = times[static_cast<size_t>(kPhases[i])];
    own_.seconds[i] += std::chrono::duration<double>(phase).count();
  }
  // A process that has just replaced another one has no times yet, but the others wait for it.
  if (!IsDue(step.number, logging_steps_)) return;
  RankTimesRow mean = own_;
  for (double& seconds : mean.seconds) seconds /= std::max(own_.steps, 1.0);
  std::vector<RankTimesRow> rows(static_cast<size_t>(mesh_.world.size));
  static_assert(std::is_trivially_copyable_v<RankTimesRow>);
  constexpr int64_t kNumbers = sizeof(RankTimesRow) / sizeof(double);
  at::Tensor own = at::from_blob(&mean, {kNumbers}, at::kDouble);
  at::Tensor all = at::from_blob(rows.data(), {mesh_.world.size * kNumbers}, at::kDouble);
  mesh_.control->_allgather_base(all, own, c10d::AllgatherOptions{})->wait();
  own_ = {.node = own_.node};  // not before: a rank may be lost, and the step is repeated
  if (step.observers == nullptr) return;
  RankTimesReport report = CompareRankTimes(rows);
  report.alike = mesh_.pipeline.size == 1;
  if (!report.phases.empty()) step.observers->Notify(&Observer::OnRankTimes, report);
}

void RankTimes::AfterUpdate(const Step& /*step*/) {
  if (is_warm_) ++own_.steps;
  is_warm_ = true;
}

}  // namespace ddprun::trainer
