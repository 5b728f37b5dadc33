// Waits on a counter in shared memory: spins briefly, then sleeps in the kernel.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace ddprun::trainer {

using Clock = std::chrono::steady_clock;

struct WaitLimits {
  Clock::time_point deadline;
  // Time to spin before sleeping. Spinning is useful only if there are idle cores.
  std::chrono::nanoseconds spin{0};
  // Another thread of this process sets it to cancel the wait, which ends within kCancelPoll.
  const std::atomic<bool>& cancelled;
  // Returns whether the counter will never reach the target. Called once per kCancelPoll.
  std::function<bool()> lost = {};
};
inline constexpr std::chrono::milliseconds kCancelPoll{10};

// Returns WaitLimits::spin for the ranks of a node: 0 unless each rank has a core.
std::chrono::nanoseconds SpinTime(int ranks);

// Waits until `word` has reached `target` (counters wrap around). Returns false if the wait times
// out, is cancelled or is lost before `word` reaches `target`. `sleepers` shows AdvanceAndWake()
// that a thread sleeps on `word`.
bool WaitUntilReached(std::atomic<uint32_t>& word,
                      std::atomic<uint32_t>& sleepers,
                      uint32_t target,
                      const WaitLimits& limits);

// Sets `word` to `value` and wakes all sleepers. Later reads of this thread come after the store.
void AdvanceAndWake(std::atomic<uint32_t>& word, std::atomic<uint32_t>& sleepers, uint32_t value);

inline bool HasReached(uint32_t value, uint32_t target) {
  return static_cast<int32_t>(value - target) >= 0;
}

}  // namespace ddprun::trainer
