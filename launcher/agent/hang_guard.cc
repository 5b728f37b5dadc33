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

void HangGuard::Watch(WorkerGroup& group,
                      const FlightReader& flight,
                      StoreOf store,
                      std::function<void(const HangReport&)> on_hang) {
  HangSources sources;
  sources.workers = [&group] { return group.workers().Living(); };
  sources.ended = [&group] { return group.workers().EndedWell(); };
  sources.store_waits = WaitsIn(std::move(store));
  sources.cpu_times = cpu_times_;
  sources.flight = &flight;
  watch_ = std::make_unique<HangWatch>(
      clock_, timeout_, std::move(sources),
      [this, &group, on_hang = std::move(on_hang)](const HangReport& report) {
        report_ = report;
        bytes_before_ = group.workers().bytes_seen();
        End(group);
        on_hang(report);
      });
}

void HangGuard::EndWatch() {
  if (watch_ != nullptr) watch_->End();
}

std::optional<HangReport> HangGuard::report(const WorkerGroup& group) const {
  std::optional<HangReport> report = report_;
  if (report) report->printed_stacks = group.workers().bytes_seen() > bytes_before_;
  return report;
}

void HangGuard::End(WorkerGroup& group) {
  group.Stop(SIGABRT);
  // SIGCONT is needed, because a stopped process takes SIGABRT only after it.
  group.PassToAll(SIGCONT);
  dump_time_ = clock_.Set(kDumpTime, [&group] { group.Hurry(); });
}

}  // namespace ddprun::launcher
