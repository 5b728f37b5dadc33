#include "trainer/worker/stop_request.h"

#include <signal.h>
#include <time.h>

#include <limits>
#include <utility>

#include "base/last_words.h"
#include "base/stop_signals.h"

namespace ddprun::trainer {

namespace {

using SteadyClock = std::chrono::steady_clock;

int64_t SteadyNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

StopRequest::StopRequest(const RunConfig& config, const Environment& environment) {
  const Result<int64_t> began_ns =
      environment.GetInt("DDPRUN_JOB_BEGAN_NS", SteadyNs(), 0, std::numeric_limits<int64_t>::max());
  const auto began =
      SteadyClock::time_point(std::chrono::nanoseconds(began_ns ? *began_ns : SteadyNs()));
  // A longer limit would not fit into the clock.
  constexpr double kNoLimit = 1e9;
  const double seconds = config.max_time.amount;
  end_ = seconds > 0 && seconds < kNoLimit
             ? began + std::chrono::duration_cast<SteadyClock::duration>(
                           std::chrono::duration<double>(seconds))
             : SteadyClock::time_point::max();
  const std::string timeout = environment.GetOr("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "");
  if (const auto grace = ParseSeconds(timeout, 0)) {
    grace_.whole = std::chrono::duration<double>(*grace).count();
  }
}

StopGrace StopRequest::grace() const {
  StopGrace grace = grace_;
  if (NotedStopSignal() != 0) grace.left = grace.whole - SecondsSinceStopSignal();
  return grace;
}

StopReason StopRequest::reason() const {
  const int signal = NotedStopSignal();
  if (signal == SIGINT) return StopReason::kInterrupt;
  if (signal != 0) return StopReason::kSignal;
  return SteadyClock::now() >= end_ ? StopReason::kTime : StopReason::kNone;
}

int StopStatus(StopReason reason) {
  return reason == StopReason::kInterrupt ? 128 + SIGINT : kStoppedStatus;
}

std::string TextOf(StopReason reason) {
  if (reason == StopReason::kTime) return "run.max_time is over";
  if (reason == StopReason::kInterrupt) return "Ctrl-C (SIGINT)";
  const int signal = NotedStopSignal();
  for (const auto& [number, name] : {std::pair(SIGTERM, "SIGTERM"), std::pair(SIGUSR1, "SIGUSR1"),
                                     std::pair(SIGUSR2, "SIGUSR2")}) {
    if (signal == number) return name;
  }
  return "a signal to another rank";
}

}  // namespace ddprun::trainer
