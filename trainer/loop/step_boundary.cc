#include "trainer/loop/step_boundary.h"

#include <algorithm>
#include <cmath>

namespace ddprun::trainer {

namespace {

constexpr double kSavingShare = 0.25;  // of StopGrace::whole, at least, is kept for a save
constexpr double kEndingShare = 0.1;   // of StopGrace::whole is kept for the exit

}  // namespace

bool IsLongStep(double seconds, const StopGrace& grace) {
  return seconds > grace.whole * kSavingShare;
}

bool IsTooLate(double rest, double save_seconds, const StopGrace& grace) {
  if (!std::isfinite(grace.left)) return false;
  return grace.left < rest + std::max(save_seconds, grace.whole * kSavingShare);
}

bool IsOver(const StopGrace& grace) {
  return std::isfinite(grace.left) && grace.left < grace.whole * kEndingShare;
}

Votes StepBoundary::VotesAt(double seconds, bool busy, bool stop) const {
  const bool by_clock = saves() && interval_.unit == IntervalUnit::kSeconds;
  return {.save = by_clock && seconds - saved_at_ >= interval_.amount, .busy = busy, .stop = stop};
}

void StepBoundary::NameUnsaved(StateVisitor& visitor) {
  int64_t due = due_ ? 1 : 0;
  visitor.Section("boundary.");
  visitor.Number("save_due", due);
  due_ = due != 0;
}

BoundaryActions StepBoundary::Decide(int64_t step,
                                     const std::optional<Votes>& votes,
                                     bool wanted,
                                     bool unfinished) {
  due_ = due_ || IsDue(interval_, step, plan_) || (votes && votes->save);
  const bool last = step == plan_.total_steps;
  BoundaryActions actions;
  actions.stop = votes && votes->stop && (!last || unfinished);
  // While a save runs, a due save waits, unless no step follows: ranks would wait for both.
  const bool free = votes && !votes->busy;
  actions.save = actions.stop || wanted || (last ? saves() || due_ : due_ && free);
  if (actions.save) due_ = false;
  return actions;
}

}  // namespace ddprun::trainer
