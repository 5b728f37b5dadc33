#include "launcher/process/stray_sweep.h"

#include <signal.h>

#include <utility>

#include "launcher/process/process_table.h"

namespace ddprun::launcher {

namespace {

// Needed for changes without the death of a child: the end of the grace time, and processes that
// this process adopts while none of its children ends.
constexpr std::chrono::milliseconds kSweepAgain{50};

}  // namespace

StraySweep::StraySweep(Clock& clock,
                       std::function<bool(pid_t)> known,
                       std::set<pid_t> sessions,
                       const SweepTimes& times,
                       Done done,
                       const InheritedChildren& others)
    : clock_(clock),
      known_(std::move(known)),
      others_(others),
      sessions_(std::move(sessions)),
      times_(times),
      done_(std::move(done)),
      start_(clock.Now()) {
  Sweep();
}

void StraySweep::Sweep() {
  if (!done_) return;
  // Looks twice: while a child ends, its children may be in no process's list for a moment.
  if (SignalStrays().empty() && SignalStrays().empty()) return Finish({});
  if (clock_.Now() > start_ + times_.limit) return Finish(SignalStrays());
  alarm_ = clock_.Set(kSweepAgain, [this] { Sweep(); });
}

std::vector<pid_t> StraySweep::SignalStrays() {
  const auto since_start = clock_.Now() - start_;
  std::vector<pid_t> strays;
  for (const ProcessEntry& child : ListChildren()) {
    if (child.ended || known_(child.pid)) continue;
    // Looks at `sessions`, too, because a worker may have got the number of a session that has
    // ended.
    if (others_.Contains(child) && !sessions_.contains(child.session)) continue;
    strays.push_back(child.pid);
    // The pid is still the child's, because only this thread reaps children.
    if (times_.IsOver(child, since_start)) {
      ::kill(child.pid, SIGKILL);
    } else if (sessions_.contains(child.session) && signalled_.insert(child.pid).second) {
      ::kill(child.pid, SIGTERM);
    }
  }
  return strays;
}

void StraySweep::Finish(std::vector<pid_t> left) {
  alarm_ = clock_.Set(
      {}, [done = std::exchange(done_, nullptr), left = std::move(left)] { done(left); });
}

}  // namespace ddprun::launcher
