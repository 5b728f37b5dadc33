// Decides between two steps whether to save, and whether to stop. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "trainer/config/config.h"
#include "trainer/job/step_plan.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// A rank's wishes between two steps. StepReports combines them: true if any rank set the field.
struct Votes {
  bool save = false;   // it is time to save, by this rank's clock
  bool busy = false;   // the last save is not finished
  bool stop = false;   // stop here and resume later, because of a signal or run.max_time
  bool end = false;    // besides `stop`: people asked for it, and nobody resumes the run by itself
  bool watch = false;  // the next step may take longer than a stop allows (IsLongStep)
};

// Seconds from the stop signal to SIGKILL: the `whole` time, and what is `left`. Infinite: unknown.
struct StopGrace {
  double whole = std::numeric_limits<double>::infinity();
  double left = std::numeric_limits<double>::infinity();  // infinite before the signal, too
};

// Returns whether a stop may have to give up a step of this many seconds.
bool IsLongStep(double seconds, const StopGrace& grace);
// Returns whether after the `rest` seconds of a step it would be too late to save. `save_seconds`
// is the time of the last save; 0 means none.
bool IsTooLate(double rest, double save_seconds, const StopGrace& grace);
// Returns whether there is no time left to wait for anything.
bool IsOver(const StopGrace& grace);

// The work of all ranks after a step. Equal on all ranks.
struct BoundaryActions {
  bool save = false;
  bool stop = false;  // after saving
};

class StepBoundary {
 public:
  StepBoundary(const CheckpointConfig& checkpoint, const StepPlan& plan)
      : interval_(checkpoint.save_steps), plan_(plan) {}

  // Returns this rank's votes. `seconds` is the time since training began; `stop` is its vote.
  Votes VotesAt(double seconds, bool busy, bool stop) const;

  // Decides after `step`. If ranks did not meet in this step, `votes` is nullopt, and a due save
  // waits. `wanted` means: save this state in any case. `unfinished` means: a later start does the
  // step's evaluation, so that the run may stop even after its last step.
  BoundaryActions Decide(int64_t step,
                         const std::optional<Votes>& votes,
                         bool wanted,
                         bool unfinished = false);

  // Notes that a save began `seconds` after training began.
  void NoteSave(double seconds) { saved_at_ = seconds; }

  void NoteLost() { due_ = true; }  // the last save was lost: another one is due
  // Names whether a due save waits.
  void NameUnsaved(StateVisitor& visitor);
  bool saves() const { return interval_.amount > 0; }

 private:
  const Interval interval_;
  const StepPlan plan_;
  double saved_at_ = 0;
  bool due_ = false;
};

}  // namespace ddprun::trainer
