#include "trainer/worker/job_clock.h"

#include <algorithm>
#include <chrono>

#include "base/slurm_step.h"

namespace ddprun::trainer {

namespace {

constexpr double kLeastReserve = 60;
constexpr double kMostShare = 0.1;  // of the span, for the least reserve

}  // namespace

JobClock::JobClock(const Environment& environment, double now) {
  const auto end = ParseInt(environment.GetOr("SLURM_JOB_END_TIME", ""));
  if (!end || !environment.Get("SLURM_JOB_ID")) return;
  span_ = std::max(0.0, static_cast<double>(*end) - now);
  if (span_ <= std::chrono::duration<double>(kNoSlurmLimit).count())
    end_ = static_cast<double>(*end);
}

void JobClock::NoteStep(double seconds) {
  longest_step_ = std::max(longest_step_, seconds);
}

std::optional<double> JobClock::Left(double now) const {
  if (!end_) return std::nullopt;
  return *end_ - now;
}

double JobClock::Reserve() const {
  const double least = std::min(kLeastReserve, span_ * kMostShare);
  return std::max(least, 2 * (longest_step_ + save_seconds_));
}

bool JobClock::IsNear(double now) const {
  return end_ && *end_ - now <= Reserve();
}

}  // namespace ddprun::trainer
