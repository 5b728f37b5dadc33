// SEAM: the time, and alarms.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <asio/io_context.hpp>

namespace ddprun::launcher {

// Use it on the loop thread only.
class Clock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // An alarm rings once. Destroying it before cancels it.
  using Alarm = std::shared_ptr<void>;

  virtual ~Clock() = default;

  virtual Time Now() const = 0;
  // Calls `ring` from the loop, `after` from now.
  [[nodiscard]] virtual Alarm Set(Time::duration after, std::function<void()> ring) = 0;
};

// The real clock.
class LoopClock : public Clock {
 public:
  // `io` must outlive the clock and its alarms.
  explicit LoopClock(asio::io_context& io) : io_(io) {}

  Time Now() const override { return std::chrono::steady_clock::now(); }
  Alarm Set(Time::duration after, std::function<void()> ring) override;

 private:
  asio::io_context& io_;
};

}  // namespace ddprun::launcher
