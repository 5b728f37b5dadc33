#include "launcher/process/clock.h"

#include <utility>

#include <asio/steady_timer.hpp>

namespace ddprun::launcher {

Clock::Alarm LoopClock::Set(Clock::Time::duration after, std::function<void()> ring) {
  struct Waiting {
    asio::steady_timer timer;
    std::function<void()> ring;
  };
  const auto waiting =
      std::make_shared<Waiting>(Waiting{asio::steady_timer(io_, after), std::move(ring)});
  // Looks at the weak pointer, because a timer that is due cannot be cancelled.
  waiting->timer.async_wait([alarm = std::weak_ptr(waiting)](const asio::error_code&) {
    if (const auto alive = alarm.lock()) alive->ring();
  });
  return waiting;
}

}  // namespace ddprun::launcher
