// When SLURM ends the job, and how long before that a run has to stop in order to save. Times are
// seconds of the wall clock since 1970, because SLURM's are.
#pragma once

#include <optional>

#include "base/env.h"

namespace ddprun::trainer {

class JobClock {
 public:
  // SLURM_JOB_END_TIME has the end; the time between `now` and it is the span.
  JobClock(const Environment& environment, double now);

  // Note the time that a step took, and that the last save took until its commit.
  void NoteStep(double seconds);
  void NoteSave(double seconds) { save_seconds_ = seconds; }
  double save_seconds() const { return save_seconds_; }

  // Returns the seconds until the end of the job; nullopt if the end is not known.
  std::optional<double> Left(double now) const;
  // Returns how long before the end a run stops: twice the longest step and the last save, and at
  // least a minute, or a tenth of the span if that is shorter.
  double Reserve() const;
  bool IsNear(double now) const;

 private:
  std::optional<double> end_;
  double span_ = 0;
  double longest_step_ = 0;
  double save_seconds_ = 0;
};

}  // namespace ddprun::trainer
