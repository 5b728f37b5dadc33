// Looks at a node's workers at intervals, and reports if they hang.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/flight_reader.h"
#include "launcher/hang/dead_links.h"
#include "launcher/hang/hang_report.h"
#include "launcher/hang/hang_state.h"
#include "launcher/hang/worker_activity.h"
#include "launcher/process/clock.h"

namespace ddprun::launcher {

// The functions that read about processes and connections of this machine.
struct WorkerReaders {
  std::function<std::map<pid_t, std::chrono::milliseconds>(std::span<const LiveWorker>)> cpu_times =
      CpuTimes;
  std::function<std::vector<DeadLink>(std::span<const LiveWorker>)> dead_links = FindDeadLinks;
};

// The functions that the watch asks. It calls them from the loop.
struct HangSources {
  std::function<std::vector<LiveWorker>()> workers;     // living workers, by rank
  std::function<std::vector<LiveWorker>()> ended = {};  // ended with code 0, by rank
  std::function<std::vector<StoreWait>(std::span<const LiveWorker>)> store_waits;
  WorkerReaders readers = {};
  // Called once, when half of the timeout is over and a link is dead. Another node may end the job
  // before this node's workers have hung for the whole timeout, and does not know of the link.
  std::function<void(const std::string& line)> on_dead_link = {};
  const FlightReader* flight = nullptr;  // must outlive the watch; nullptr means none
};

// Use it on the loop thread only. Destroying it ends the watch.
class HangWatch {
 public:
  // Calls `on_hang` once, from the loop, when the workers have not moved for `timeout`, or up to
  // about a fifth of `timeout` later. `clock` must outlive the watch.
  HangWatch(Clock& clock,
            std::chrono::milliseconds timeout,
            HangSources sources,
            std::function<void(const HangReport&)> on_hang);

  // Ends the watch.
  void End() { alarm_.reset(); }

 private:
  void CheckLater();
  void Check();
  void WarnOfDeadLink(const std::vector<LiveWorker>& workers);
  std::optional<FlightSnapshot> FlightOf(const LiveWorker& worker) const;
  HangReport Report(const std::vector<LiveWorker>& workers,
                    const std::vector<WorkerSample>& samples) const;

  Clock& clock_;
  const std::chrono::milliseconds timeout_;
  const std::chrono::milliseconds interval_;
  const HangSources sources_;
  const std::function<void(const HangReport&)> on_hang_;
  HangState state_;
  bool warned_ = false;
  Clock::Alarm alarm_;
};

}  // namespace ddprun::launcher
