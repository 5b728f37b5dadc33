#include "trainer/comm/futex_wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace ddprun::trainer {

namespace {

// No FUTEX_PRIVATE_FLAG, because processes share the word.
void FutexWait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::nanoseconds timeout) {
  const timespec time{.tv_sec = static_cast<time_t>(timeout.count() / 1'000'000'000),
                      .tv_nsec = static_cast<long>(timeout.count() % 1'000'000'000)};
  // After each error (EAGAIN, EINTR, ETIMEDOUT) the caller reads the word again.
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, expected, &time, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

inline void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

bool Spin(const std::atomic<uint32_t>& word, uint32_t target, std::chrono::nanoseconds spin) {
  const Clock::time_point end = Clock::now() + spin;
  do {
    // Reads the clock once in 32 pauses, because it costs as much as some twenty pauses.
    for (int i = 0; i < 32; ++i) {
      if (HasReached(word.load(std::memory_order_acquire), target)) return true;
      Relax();
    }
  } while (Clock::now() < end);
  return false;
}

}  // namespace

std::chrono::nanoseconds SpinTime(int ranks) {
  cpu_set_t allowed;
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const int cores = known ? CPU_COUNT(&allowed) : 1;
  return ranks <= cores ? std::chrono::microseconds(50) : std::chrono::nanoseconds(0);
}

bool WaitUntilReached(std::atomic<uint32_t>& word,
                      std::atomic<uint32_t>& sleepers,
                      uint32_t target,
                      const WaitLimits& limits) {
  if (HasReached(word.load(std::memory_order_acquire), target)) return true;
  if (limits.spin.count() > 0 && Spin(word, target, limits.spin)) return true;
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  bool reached = false;
  for (;;) {
    const uint32_t seen = word.load(std::memory_order_seq_cst);
    reached = HasReached(seen, target);
    const Clock::duration left = limits.deadline - Clock::now();
    if (reached || left <= Clock::duration::zero() || limits.cancelled.load()) break;
    if (limits.lost && limits.lost()) break;
    FutexWait(word, seen, std::min<Clock::duration>(left, kCancelPoll));
  }
  sleepers.fetch_sub(1, std::memory_order_relaxed);
  return reached;
}

void AdvanceAndWake(std::atomic<uint32_t>& word, std::atomic<uint32_t>& sleepers, uint32_t value) {
  // Both sides are sequentially consistent, so that this thread sees the sleeper or the sleeper
  // sees the new value.
  word.store(value, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) > 0) FutexWakeAll(word);
}

}  // namespace ddprun::trainer
