// What one attempt does about hangs: the watch, and the end of a group that hangs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/flight_reader.h"
#include "launcher/agent/worker_group.h"
#include "launcher/agent/worker_spec.h"
#include "launcher/hang/hang_watch.h"

namespace ddprun::launcher {

// Loop thread only. Destroying it ends the watch.
class HangGuard {
 public:
  // The store server that the workers use, if this node hosts it; else nullptr.
  using StoreOf = std::function<const rendezvous::StoreServer*()>;
  using StoreWaits = std::function<std::vector<StoreWait>(std::span<const LiveWorker>)>;
  static StoreWaits WaitsIn(StoreOf store);

  HangGuard(Clock& clock, CpuTimesReader cpu_times, std::chrono::milliseconds timeout)
      : clock_(clock), cpu_times_(std::move(cpu_times)), timeout_(timeout) {}

  // From now on `group` is watched; it and `flight` outlive this. When it hangs, its workers get
  // SIGABRT, on which they print their stacks, and SIGKILL a little later; `on_hang` is called in
  // between.
  void Watch(WorkerGroup& group,
             const FlightReader& flight,
             StoreOf store,
             std::function<void(const HangReport&)> on_hang);

  // The group is being ended. What a hang has begun goes on.
  void EndWatch();

  // Of the group that is watched; nullopt: it has not hung.
  std::optional<HangReport> report(const WorkerGroup& group) const;

 private:
  void End(WorkerGroup& group);

  Clock& clock_;
  const CpuTimesReader cpu_times_;
  const std::chrono::milliseconds timeout_;
  Clock::Alarm dump_time_;
  std::unique_ptr<HangWatch> watch_;
  std::optional<HangReport> report_;
  uint64_t bytes_before_ = 0;  // that the workers had printed when they were told to end
};

}  // namespace ddprun::launcher
