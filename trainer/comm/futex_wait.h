// Waiting on a counter in shared memory: spin briefly, then sleep in the kernel.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace ddprun::trainer {

using Clock = std::chrono::steady_clock;

struct WaitLimits {
  Clock::time_point deadline;
  // How long to spin before sleeping: worth it only while there are cores to spare.
  std::chrono::nanoseconds spin{0};
  // Set by another thread of this process to give up; noticed within kCancelPoll.
  const std::atomic<bool>& cancelled;
  // Says that it will never be reached; asked once in kCancelPoll.
  std::function<bool()> lost = {};
};
inline constexpr std::chrono::milliseconds kCancelPoll{10};

// Waits until `word` has come to `target` (counters wrap around); false when the deadline passes
// first, or the wait is cancelled or lost: never once it has come. `sleepers` tells AdvanceAndWake
// that somebody sleeps on `word`.
bool WaitUntilReached(std::atomic<uint32_t>& word,
                      std::atomic<uint32_t>& sleepers,
                      uint32_t target,
                      const WaitLimits& limits);

// Sets `word` to `value`, visible before any later read of this thread, and wakes who sleeps.
void AdvanceAndWake(std::atomic<uint32_t>& word, std::atomic<uint32_t>& sleepers, uint32_t value);

inline bool HasReached(uint32_t value, uint32_t target) {
  return static_cast<int32_t>(value - target) >= 0;
}

}  // namespace ddprun::trainer
