#include "launcher/agent/hang_guard.h"

#include <signal.h>

#include <utility>

#include "launcher/store/store_waits.h"

namespace ddprun::launcher {

namespace {

// Time from SIGABRT to SIGKILL: workers print the stacks of all threads, and may write a core file.
constexpr std::chrono::seconds kDumpTime{5};

}  // namespace

HangGuard::StoreWaits HangGuard::WaitsIn(StoreOf store) {
  return [store = std::move(store)](std::span<const LiveWorker> workers) {
    const rendezvous::StoreServer* server = store();
    return server == nullptr ? std::vector<StoreWait>() : FindWaits(*server, workers);
  };
}

HangGuard::HangGuard(const GroupSurroundings& surroundings,
                     std::chrono::milliseconds timeout,
                     WorkerGroup& group,
                     const FlightReader& flight,
                     StoreOf store,
                     std::function<void(const HangReport&)> on_hang)
    : clock_(surroundings.clock),
      group_(group),
      on_hang_(std::move(on_hang)),
      watch_(surroundings.clock,
             timeout,
             {.workers = [&group] { return group.workers().Living(); },
              .ended = [&group] { return group.workers().EndedWell(); },
              .store_waits = WaitsIn(std::move(store)),
              .readers = surroundings.readers,
              .on_dead_link =
                  [&log = surroundings.log](const std::string& line) { log.Warning(line); },
              .flight = &flight},
             [this](const HangReport& report) { OnHang(report); }) {}

void HangGuard::OnHang(const HangReport& report) {
  report_ = report;
  bytes_before_ = group_.workers().bytes_seen();
  group_.Stop(SIGABRT);
  // SIGCONT is needed, because a stopped process takes SIGABRT only after it.
  group_.workers().SignalWithChildren(SIGCONT);
  dump_time_ = clock_.Set(kDumpTime, [this] { group_.Kill(); });
  on_hang_(report);
}

std::optional<HangReport> HangGuard::report() const {
  std::optional<HangReport> report = report_;
  if (report) report->printed_stacks = group_.workers().bytes_seen() > bytes_before_;
  return report;
}

}  // namespace ddprun::launcher
