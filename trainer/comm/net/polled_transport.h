// The waiting of transports whose events a descriptor reports. Internal to its folder.
#pragma once

#include <condition_variable>
#include <mutex>

#include "trainer/comm/net/transport.h"

namespace ddprun::trainer {

class PolledTransport : public Transport {
 public:
  bool Progress() final;
  uint64_t completions() const final { return completions_.load(std::memory_order_acquire); }
  bool WaitForCompletion(uint64_t seen, const Limits& limits) final;

 protected:
  explicit PolledTransport(std::chrono::nanoseconds spin) : spin_(spin) {}

  // REQUIRES for the functions below: the caller holds the mutex.
  virtual bool ProgressLocked() = 0;
  // Prepares a wait for the descriptor. Returns false if there are events already.
  virtual bool Arm() { return true; }
  virtual int events() const = 0;
  // Wakes the other threads, which wait for the one that waits for events.
  void WakeOthers() { progressed_.notify_all(); }

  static constexpr std::chrono::milliseconds kCancelPoll{20};
  // Time that a process which ends waits for its last messages to leave.
  static constexpr std::chrono::milliseconds kFarewell{2000};

  std::mutex mutex_;             // guards the members of this class and of those that are derived
  bool somebody_waits_ = false;  // a thread waits, or is about to wait, for events
  std::atomic<uint64_t> completions_ = 0;

 private:
  const std::chrono::nanoseconds spin_;
  std::condition_variable progressed_;
};

}  // namespace ddprun::trainer
