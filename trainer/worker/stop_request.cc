#include "trainer/worker/stop_request.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "base/last_words.h"
#include "base/stop_signals.h"
#include "trainer/report/format.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

namespace {

using SteadyClock = std::chrono::steady_clock;

int64_t SteadyNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

double UnixSeconds() {
  return ReportTime::Now().unix_seconds;
}

// The launcher's time after a warning if it does not know the end of the job.
constexpr double kUnknownEnd = 300;

std::string TextOf(StopReason reason) {
  if (reason == StopReason::kTime) return "run.max_time is over";
  if (reason == StopReason::kJobEnd) return "SLURM ends the job soon";
  if (reason == StopReason::kInterrupt) return "Ctrl-C (SIGINT)";
  const int signal = NotedStopSignal();
  for (const auto& [number, name] :
       {std::pair(SIGTERM, "SIGTERM"), std::pair(SIGUSR1, "SIGUSR1"), std::pair(SIGUSR2, "SIGUSR2"),
        std::pair(kRejoinSignal, "the nodes join anew")}) {
    if (signal == number) return name;
  }
  return "a signal to another rank";
}

}  // namespace

StopRequest::StopRequest(const RunConfig& config, const Environment& environment)
    : killed_by_slurm_(environment.Get("DDPRUN_KILL_WAIT").has_value()),
      job_(std::make_shared<JobClock>(environment, UnixSeconds())) {
  const Result<int64_t> began_ns =
      environment.GetInt("DDPRUN_JOB_BEGAN_NS", SteadyNs(), 0, std::numeric_limits<int64_t>::max());
  const auto began =
      SteadyClock::time_point(std::chrono::nanoseconds(began_ns ? *began_ns : SteadyNs()));
  // A longer limit would not fit into the clock.
  constexpr double kNoLimit = 1e9;
  const double seconds = config.max_time.amount;
  ends_with_job_ = seconds == 0 && job_->Left(0).has_value();
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
  const int signal = NotedStopSignal();
  if (signal == 0) return grace;
  const double since = SecondsSinceStopSignal();
  grace.left = grace.whole - since;
  if (killed_by_slurm_ && (signal == SIGUSR1 || signal == SIGUSR2)) {
    const double until_end = job_->Left(UnixSeconds()).value_or(kUnknownEnd - since);
    grace.left = std::max(grace.left, until_end);
  }
  return grace;
}

std::string StopRequest::JobEndText() const {
  if (!ends_with_job_) return "";
  return "SLURM ends this job in " + Duration(*job_->Left(UnixSeconds())) +
         "; the run saves and stops at least " + Duration(job_->Reserve()) +
         " before (run.max_time is not set)";
}

StopReason StopRequest::reason() const {
  const int signal = NotedStopSignal();
  if (signal == SIGINT) return StopReason::kInterrupt;
  if (signal != 0) return StopReason::kSignal;
  if (ends_with_job_ && job_->IsNear(UnixSeconds())) return StopReason::kJobEnd;
  return SteadyClock::now() >= end_ ? StopReason::kTime : StopReason::kNone;
}

std::string StopRequest::Text() const {
  constexpr int kLooks = 50;
  const auto may_change = [this] { return reason() == StopReason::kNone || NodesJoinAnew(); };
  for (int i = 0; i < kLooks && may_change(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return TextOf(reason());
}

bool NodesJoinAnew() {
  return NotedStopSignal() == kRejoinSignal;
}

int StopStatus(StopReason reason) {
  return reason == StopReason::kInterrupt ? 128 + SIGINT : kStoppedStatus;
}

}  // namespace ddprun::trainer
