// What is done between two steps: whether to save, and whether to stop. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "trainer/config/config.h"
#include "trainer/job/step_plan.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// What a rank knows between two steps and the others may not; or what any of them knows, where they
// have told each other, as they do beside the sums of a step (StepReports).
struct Votes {
  bool save = false;   // it is time to save, by this rank's clock
  bool busy = false;   // the save before is not finished
  bool stop = false;   // the run is to stop here and go on later: a signal, the end of its time
  bool watch = false;  // the next step may be too long for what a stop leaves (IsLongStep)
};

// Seconds from being told to stop to being killed: at first, and now. Infinite: not known.
struct StopGrace {
  double whole = std::numeric_limits<double>::infinity();
  double left = std::numeric_limits<double>::infinity();  // also of one that was not told
};

// Whether a step of so many seconds may have to be given up in the middle.
bool IsLongStep(double seconds, const StopGrace& grace);
// Whether the state could not be saved any more after the `rest` seconds of a step. `save_seconds`:
// of the save before; 0: none.
bool IsTooLate(double rest, double save_seconds, const StopGrace& grace);
// Whether nothing can be waited for any more.
bool IsOver(const StopGrace& grace);

// What all ranks do, alike.
struct BoundaryActions {
  bool save = false;
  bool stop = false;  // after saving
};

class StepBoundary {
 public:
  StepBoundary(const CheckpointConfig& checkpoint, const StepPlan& plan)
      : interval_(checkpoint.save_steps), plan_(plan) {}

  // This rank's votes `seconds` after the training began. `stop`: it was asked to.
  Votes VotesAt(double seconds, bool busy, bool stop) const;

  // After `step`. `votes`: of any rank; nullopt: ranks did not meet in this step, and what is due
  // waits until they do. `wanted`: this very state is to be kept. `unfinished`: the step's
  // evaluation is left to a later start, so that the run may stop even after its last step.
  BoundaryActions Decide(int64_t step,
                         const std::optional<Votes>& votes,
                         bool wanted,
                         bool unfinished = false);

  // A save has begun `seconds` after the training began.
  void NoteSave(double seconds) { saved_at_ = seconds; }

  // What is due and waits.
  void NameUnsaved(StateVisitor& visitor);

  bool saves() const { return interval_.amount > 0; }

 private:
  const Interval interval_;
  const StepPlan plan_;
  double saved_at_ = 0;
  bool due_ = false;
};

}  // namespace ddprun::trainer
