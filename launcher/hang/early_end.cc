#include "launcher/hang/early_end.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "launcher/hang/worker_activity.h"

namespace ddprun::launcher {

namespace {

// Looks into the store rarely, because a look costs milliseconds and short waits are normal.
constexpr int kChecksPerStoreCheck = 5;
constexpr std::chrono::seconds kLongWait{10};

// Returns the first collective of all ranks in which the worker waits; nullptr if there is none.
const RecordedCollective* AwaitedBy(const WorkerFlight& worker) {
  for (const RecordedCollective& collective : worker.flight.collectives) {
    if (!IsOfAllRanks(collective.group) || IsMessage(collective.kind)) continue;
    if (collective.state == CollectiveState::kWaiting) return &collective;
  }
  return nullptr;
}

bool HasCome(const FlightSnapshot& flight, const RecordedCollective& awaited) {
  return std::any_of(flight.collectives.begin(), flight.collectives.end(), [&](const auto& c) {
    if (!IsOfAllRanks(c.group) || IsMessage(c.kind)) return false;
    // If the group was made again, the two numbers cannot be compared.
    return c.group != awaited.group || c.number > awaited.number ||
           (c.number == awaited.number && c.state == CollectiveState::kCompleted);
  });
}

// Reads the pages of `workers`. A process that the worker has started, as a shell starts Python,
// may have written the page: then it counts only if this process lives (`living`) or has ended.
std::vector<WorkerFlight> ReadFlights(const FlightReader& flight,
                                      const std::vector<LiveWorker>& workers,
                                      bool living) {
  std::vector<WorkerFlight> found;
  for (const LiveWorker& worker : workers) {
    std::optional<FlightSnapshot> snapshot = flight.Read(worker.local_rank);
    if (!snapshot) continue;
    const auto lives = [&] { return ::kill(snapshot->pid, 0) == 0 || errno == EPERM; };
    if (snapshot->pid != worker.pid && lives() != living) continue;
    found.push_back({worker.rank, worker.local_rank, *std::move(snapshot)});
  }
  return found;
}

std::vector<int> RanksOf(std::span<const LiveWorker> workers) {
  std::vector<int> ranks;
  for (const LiveWorker& worker : workers) ranks.push_back(worker.rank);
  return ranks;
}

}  // namespace

std::optional<EarlyEnd> FindEarlyEnd(std::span<const WorkerFlight> ended,
                                     std::span<const WorkerFlight> living) {
  const RecordedCollective* awaited = nullptr;
  for (const WorkerFlight& worker : living) {
    const RecordedCollective* collective = AwaitedBy(worker);
    if (collective == nullptr) continue;
    if (awaited == nullptr || collective->number < awaited->number) awaited = collective;
  }
  if (awaited == nullptr) return std::nullopt;
  const auto missing = std::find_if(ended.begin(), ended.end(), [&](const WorkerFlight& worker) {
    return !HasCome(worker.flight, *awaited);
  });
  if (missing == ended.end()) return std::nullopt;
  std::vector<int> waiting;
  for (const WorkerFlight& worker : living) {
    if (AwaitedBy(worker) != nullptr) waiting.push_back(worker.rank);
  }
  return EarlyEnd{missing->local_rank, awaited->number,
                  RankList(waiting) + " waiting for it in " + Describe(*awaited)};
}

std::string DescribeEndWhileAllWait(std::span<const LiveWorker> ended,
                                    std::span<const LiveWorker> living,
                                    std::span<const StoreWait> waits) {
  const StoreWait* shown = nullptr;
  for (const LiveWorker& worker : living) {
    const auto wait = std::find_if(waits.begin(), waits.end(), [&](const StoreWait& w) {
      return w.rank == worker.rank && w.status.waited >= kLongWait;
    });
    if (wait == waits.end()) return "";
    if (shown == nullptr) shown = &*wait;
  }
  if (shown == nullptr || ended.empty()) return "";
  return RankList(RanksOf(ended)) +
         " ended with code 0, and all others wait in the store: " + Describe(*shown);
}

EarlyEndWatch::EarlyEndWatch(Clock& clock,
                             Sources sources,
                             Handlers handlers,
                             std::chrono::milliseconds interval)
    : clock_(clock),
      sources_(std::move(sources)),
      handlers_(std::move(handlers)),
      interval_(interval) {}

void EarlyEndWatch::Begin() {
  if (!std::exchange(has_begun_, true)) CheckLater();
}

void EarlyEndWatch::CheckLater() {
  alarm_ = clock_.Set(interval_, [this] { Check(); });
}

void EarlyEndWatch::Check() {
  const std::vector<LiveWorker> living = sources_.living();
  if (living.empty()) return;
  const std::vector<LiveWorker> ended = sources_.ended();
  const auto found = FindEarlyEnd(ReadFlights(*sources_.flight, ended, /*living=*/false),
                                  ReadFlights(*sources_.flight, living, /*living=*/true));
  // Reports only what two looks have found, because a rank may be about to wake up.
  const bool settled = found && last_ && found->number == last_->number;
  if (settled) return handlers_.on_early_end(*found);
  last_ = found;
  if (sources_.store_waits && !reported_waits_ && ++checks_ % kChecksPerStoreCheck == 0) {
    const std::string line = DescribeEndWhileAllWait(ended, living, sources_.store_waits(living));
    reported_waits_ = !line.empty();
    if (reported_waits_) handlers_.on_all_wait(line);
  }
  CheckLater();
}

}  // namespace ddprun::launcher
