// Watches one attempt for hangs, and ends a group that hangs.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/flight_reader.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/agent/worker_group.h"
#include "launcher/agent/worker_spec.h"
#include "launcher/hang/hang_watch.h"

namespace ddprun::launcher {

// Use it on the loop thread only. Destroying it ends the watch.
class HangGuard {
 public:
  // Returns the store's server that the workers use; nullptr if another node hosts it.
  using StoreOf = std::function<const rendezvous::StoreServer*()>;
  using StoreWaits = std::function<std::vector<StoreWait>(std::span<const LiveWorker>)>;
  static StoreWaits WaitsIn(StoreOf store);

  // Watches `group` from now on. If it hangs for --hang_timeout, asks the workers for the dumps of
  // their NCCL groups and waits for them; then sends SIGABRT, on which workers print their stacks,
  // calls `on_hang`, and sends SIGKILL a little later. The references must outlive this object.
  HangGuard(const GroupSurroundings& surroundings,
            const AgentPlan& plan,
            WorkerGroup& group,
            const FlightReader& flight,
            StoreOf store,
            std::function<void(const HangReport&)> on_hang);

  // Ends the watch, because the group is stopping. If it has hung, SIGKILL still follows.
  void EndWatch();

  // Returns the report about the watched group; nullopt means that it has not hung.
  std::optional<HangReport> report() const;

 private:
  void OnHang(HangReport report);
  // Waits until so many ranks have written their dumps, or until a limit; then ends the group.
  void AwaitDumps(HangReport report, size_t asked, Clock::Time limit);
  void End(HangReport report);
  std::string folder() const;  // of the attempt

  Clock& clock_;
  const std::string& job_folder_;
  WorkerGroup& group_;
  const std::function<void(const HangReport&)> on_hang_;
  HangWatch watch_;
  Clock::Alarm nccl_time_;  // the next look for dumps
  Clock::Alarm dump_time_;
  std::optional<HangReport> report_;
  uint64_t bytes_before_ = 0;  // bytes that the workers had printed before SIGABRT
};

}  // namespace ddprun::launcher
