#include "launcher/agent/hang_guard.h"

#include <signal.h>

#include <utility>

#include "launcher/store/store_waits.h"

namespace ddprun::launcher {

namespace {

// For printing the stacks of all threads, and for writing a core file if the user wants any.
constexpr std::chrono::seconds kDumpTime{5};

}  // namespace

Result<std::unique_ptr<HangGuard>> HangGuard::Create(asio::io_context& io,
                                                     std::chrono::milliseconds timeout,
                                                     int local_world_size) {
  DDPRUN_ASSIGN(UniqueFd recorder, CreateFlightRecorderFile(local_world_size));
  return std::unique_ptr<HangGuard>(
      new HangGuard(io, timeout, local_world_size, std::move(recorder)));
}

void HangGuard::Prepare(std::vector<WorkerSpec>& specs, const Environment& base) const {
  for (WorkerSpec& spec : specs) {
    // The template gives each worker the number of the descriptor that it passes on.
    spec.env.Set(kFlightRecorderVariable, std::to_string(recorder_.get()));
    // Python then prints the stack of every thread on SIGABRT.
    if (!base.Get("PYTHONFAULTHANDLER")) spec.env.Set("PYTHONFAULTHANDLER", "1");
  }
}

Status HangGuard::Watch(WorkerGroup& group,
                        StoreOf store,
                        std::function<void(const HangReport&)> on_hang) {
  HangSources sources;
  sources.workers = [&group] { return group.Living(); };
  sources.store_waits = [store = std::move(store)](std::span<const LocalWorker> workers) {
    const rendezvous::StoreServer* server = store();
    return server == nullptr ? std::vector<StoreWait>() : FindWaits(*server, workers);
  };
  DDPRUN_ASSIGN(sources.flight, FlightReader::Open(recorder_, local_world_size_));
  watch_ = std::make_unique<HangWatch>(
      io_, timeout_, std::move(sources),
      [this, &group, on_hang = std::move(on_hang)](const HangReport& report) {
        report_ = report;
        End(group);
        on_hang(report);
      });
  return {};
}

void HangGuard::End(WorkerGroup& group) {
  group.Stop(SIGABRT);
  // A stopped process takes no other signal before.
  group.PassToAll(SIGCONT);
  dump_timer_.expires_after(kDumpTime);
  dump_timer_.async_wait([&group, alive = std::weak_ptr(alive_)](const asio::error_code& error) {
    if (!error && !alive.expired()) group.Hurry();
  });
}

}  // namespace ddprun::launcher
