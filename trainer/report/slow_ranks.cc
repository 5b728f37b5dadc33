#include "trainer/report/slow_ranks.h"

#include <string>

#include "trainer/report/format.h"

namespace ddprun::trainer {

namespace {

std::string Milliseconds(double seconds) {
  return ShortNumber(1e3 * seconds) + " ms";
}

std::string LineOf(const RankTimesReport& report) {
  const RankTimesReport::Slowest& slowest = report.slowest;
  const std::string node =
      report.several_nodes ? " on node " + std::to_string(slowest.node) : std::string();
  return "rank " + std::to_string(slowest.rank) + node +
         " is slow, and the others wait for it: " + Milliseconds(slowest.seconds) +
         " of its own in a step, the others " + Milliseconds(slowest.others) +
         " (median). Most of it: " + std::string(PhaseText(slowest.phase)) + ", " +
         Milliseconds(slowest.phase_seconds) + " and " + Milliseconds(slowest.phase_others);
}

}  // namespace

void SlowRanks::OnRankTimes(const RankTimesReport& report, ReportTime now) {
  const RankTimesReport::Slowest& slowest = report.slowest;
  const bool slow = report.alike && slowest.seconds > kTimes * slowest.others;
  if (!slow || slowest.rank != rank_) {
    rank_ = slow ? slowest.rank : -1;
    since_ = now.steady_seconds;
    return;
  }
  if (now.steady_seconds - since_ < kSeconds || now.steady_seconds < next_) return;
  next_ = now.steady_seconds + kPause;
  notes_.OnNote(LineOf(report));
}

}  // namespace ddprun::trainer
