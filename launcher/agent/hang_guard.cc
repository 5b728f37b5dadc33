#include "launcher/agent/hang_guard.h"

#include <signal.h>

#include <utility>

#include "launcher/agent/nccl_report.h"
#include "launcher/nccl/nccl_dump.h"
#include "launcher/store/store_waits.h"

namespace ddprun::launcher {

namespace {

// Time from SIGABRT to SIGKILL: workers print the stacks of all threads, and may write a core file.
constexpr std::chrono::seconds kDumpTime{5};

// A worker looks every second whether it is asked for its dump of NCCL's groups. To write one takes
// some seconds on a busy machine, and for ever if a thread keeps Python's lock.
constexpr std::chrono::seconds kMostNcclTime{20};
constexpr std::chrono::milliseconds kNcclLook{500};

}  // namespace

HangGuard::StoreWaits HangGuard::WaitsIn(StoreOf store) {
  return [store = std::move(store)](std::span<const LiveWorker> workers) {
    const rendezvous::StoreServer* server = store();
    return server == nullptr ? std::vector<StoreWait>() : FindWaits(*server, workers);
  };
}

HangGuard::HangGuard(const GroupSurroundings& surroundings,
                     const AgentPlan& plan,
                     WorkerGroup& group,
                     const FlightReader& flight,
                     StoreOf store,
                     std::function<void(const HangReport&)> on_hang)
    : clock_(surroundings.clock),
      job_folder_(plan.job_folder),
      group_(group),
      on_hang_(std::move(on_hang)),
      watch_(surroundings.clock,
             *plan.options.hang_timeout,
             {.workers = [&group] { return group.workers().Living(); },
              .ended = [&group] { return group.workers().EndedWell(); },
              .store_waits = WaitsIn(std::move(store)),
              .readers = surroundings.readers,
              .on_dead_link =
                  [&log = surroundings.log](const std::string& line) { log.Warning(line); },
              .flight = &flight},
             [this](const HangReport& report) { OnHang(report); }) {}

std::string HangGuard::folder() const {
  return NcclFolder(group_.workers().Records().front());
}

void HangGuard::EndWatch() {
  watch_.End();
  nccl_time_.reset();
}

void HangGuard::OnHang(HangReport report) {
  std::vector<int> ranks;
  for (const WorkerActivity& activity : report.activities) ranks.push_back(activity.rank);
  const std::vector<int> asked = AskForNcclDumps(job_folder_, ranks);
  AwaitDumps(std::move(report), asked.size(), clock_.Now() + kMostNcclTime);
}

void HangGuard::AwaitDumps(HangReport report, size_t asked, Clock::Time limit) {
  const bool is_over = asked == 0 || clock_.Now() >= limit;
  if (is_over || ReadNcclDumps(folder()).dumps.size() >= asked) return End(std::move(report));
  nccl_time_ = clock_.Set(kNcclLook, [this, report = std::move(report), asked, limit] {
    AwaitDumps(report, asked, limit);
  });
}

void HangGuard::End(HangReport report) {
  AddNccl(ReadNcclFinding(folder()), report);
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
