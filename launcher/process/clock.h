// SEAM: time, and being called when it has passed.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <asio/io_context.hpp>

namespace ddprun::launcher {

// Loop thread only.
class Clock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // It rings once, unless it is gone by then.
  using Alarm = std::shared_ptr<void>;

  virtual ~Clock() = default;

  virtual Time Now() const = 0;
  // Calls `ring` from the loop, `after` from now.
  [[nodiscard]] virtual Alarm Set(Time::duration after, std::function<void()> ring) = 0;
};

// The time that really passes.
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
