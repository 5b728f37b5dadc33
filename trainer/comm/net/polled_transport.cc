#include "trainer/comm/net/polled_transport.h"

#include <poll.h>

#include <algorithm>

namespace ddprun::trainer {

bool PolledTransport::Progress() {
  const std::lock_guard lock(mutex_);
  return ProgressLocked();
}

// One thread waits for the descriptor's events, and the others wait for this thread.
bool PolledTransport::WaitForCompletion(uint64_t seen, const Limits& limits) {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  Clock::time_point spin_until = Clock::now() + spin_;
  for (;;) {
    if (completions() != seen) return true;
    const Clock::time_point now = Clock::now();
    if (now >= limits.deadline || limits.cancelled.load()) return false;
    const Clock::duration nap = std::min<Clock::duration>(limits.deadline - now, kCancelPoll);
    if (somebody_waits_) {
      progressed_.wait_for(lock, nap);
      continue;
    }
    if (ProgressLocked()) {
      spin_until = Clock::now() + spin_;
      continue;
    }
    if (completions() != seen || now < spin_until || !Arm()) continue;
    somebody_waits_ = true;
    lock.unlock();
    pollfd news{events(), POLLIN, 0};
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(nap).count();
    poll(&news, 1, static_cast<int>(milliseconds));
    lock.lock();
    somebody_waits_ = false;
    ProgressLocked();
    progressed_.notify_all();
  }
}

}  // namespace ddprun::trainer
