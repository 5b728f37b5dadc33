#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "launcher/hang/hang_report.h"

namespace ddprun::launcher {

namespace {

using Standings = std::span<const Standing>;

template <typename Predicate>
std::vector<int> RanksThat(Standings standings, const Predicate& predicate) {
  std::vector<int> ranks;
  for (const Standing& standing : standings) {
    if (predicate(standing)) ranks.push_back(standing.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// A reason that is true of all ranks, or of none, does not name a culprit.
bool TellsApart(const std::vector<int>& ranks, Standings standings) {
  return !ranks.empty() && ranks.size() < standings.size();
}

Culprit Stopped(Standings standings) {
  return {RanksThat(standings,
                    [](const Standing& s) { return s.place.state == 'T' || s.place.state == 't'; }),
          "is stopped (state T): by SIGSTOP, or by a debugger"};
}

// Returns the highest number of a collective of the group that the rank has recorded.
uint64_t NumberIn(const Standing& standing, uint16_t group) {
  uint64_t number = 0;
  if (!standing.flight) return number;
  for (const RecordedCollective& collective : standing.flight->collectives) {
    if (collective.group != group || IsMessage(collective.kind)) continue;
    number = std::max(number, collective.number);
  }
  return number;
}

Culprit Missing(Standings standings) {
  const RecordedCollective* awaited = nullptr;  // the earliest in which a rank waits
  for (const Standing& standing : standings) {
    if (!standing.flight) continue;
    for (const RecordedCollective& collective : standing.flight->collectives) {
      if (collective.state != CollectiveState::kWaiting) continue;
      if (IsMessage(collective.kind)) continue;
      if (awaited == nullptr || collective.number < awaited->number) awaited = &collective;
    }
  }
  if (awaited == nullptr) return {};
  return {RanksThat(standings,
                    [&](const Standing& s) {
                      return IsIn(s, awaited->group) &&
                             NumberIn(s, awaited->group) < awaited->number;
                    }),
          "has not come to " + std::string(NameOf(awaited->kind)) + " " +
              std::to_string(awaited->number)};
}

// Finds the first rank that does not wait although another rank waits for its message.
Culprit NotSent(Standings standings) {
  std::map<int, int> awaited;  // sender's rank -> a rank that waits for the sender
  std::set<int> waiting;
  for (const Standing& standing : standings) {
    if (!standing.flight) continue;
    for (const RecordedCollective& collective : standing.flight->collectives) {
      if (collective.state != CollectiveState::kWaiting) continue;
      waiting.insert(standing.rank);
      if (collective.kind != CollectiveKind::kReceive) continue;
      awaited.emplace(static_cast<int>(collective.number), standing.rank);
    }
  }
  std::erase_if(awaited, [&](const auto& one) { return waiting.contains(one.first); });
  if (awaited.empty()) return {};
  const int sender = awaited.begin()->first;
  return {RanksThat(standings, [&](const Standing& s) { return s.rank == sender; }),
          "has not sent what rank " + std::to_string(awaited.begin()->second) + " waits for"};
}

Culprit InKernel(Standings standings) {
  return {RanksThat(standings, [](const Standing& s) { return s.place.state == 'D'; }),
          "hangs in the kernel (state D)"};
}

Culprit NotInStore(Standings standings, std::span<const StoreWait> waits) {
  std::set<int> waiting;
  for (const StoreWait& wait : waits) {
    if (wait.rank) waiting.insert(*wait.rank);
  }
  if (waiting.empty()) return {};
  return {RanksThat(standings, [&](const Standing& s) { return !waiting.contains(s.rank); }),
          "does not wait in the store, where others do"};
}

Culprit OddOneOut(Standings standings) {
  if (standings.size() < 3) return {};
  std::map<std::optional<long>, size_t> calls;
  for (const Standing& standing : standings) ++calls[standing.place.system_call];
  const auto odd =
      std::find_if(calls.begin(), calls.end(), [](const auto& c) { return c.second == 1; });
  if (calls.size() != 2 || odd == calls.end()) return {};
  return {
      RanksThat(standings, [&](const Standing& s) { return s.place.system_call == odd->first; }),
      "is somewhere else than the others"};
}

Culprit FirstToStop(Standings standings) {
  if (standings.size() < 2) return {};
  std::vector<std::chrono::milliseconds> times;
  for (const Standing& standing : standings) times.push_back(standing.still_for);
  std::sort(times.rbegin(), times.rend());
  // The others stop later, because they wait for the culprit. Small differences say nothing.
  if (times[0] < times[1] * 3 / 2) return {};
  return {RanksThat(standings, [&](const Standing& s) { return s.still_for == times[0]; }),
          "stopped moving long before the others"};
}

}  // namespace

Culprit FindCulprit(Standings standings, std::span<const StoreWait> waits) {
  if (Culprit stopped = Stopped(standings); !stopped.ranks.empty()) return stopped;
  for (Culprit& found : std::vector<Culprit>{Missing(standings), NotSent(standings),
                                             InKernel(standings), NotInStore(standings, waits),
                                             OddOneOut(standings), FirstToStop(standings)}) {
    if (TellsApart(found.ranks, standings)) return std::move(found);
  }
  return {};
}

const RecordedCollective* LastCollective(const FlightSnapshot& flight) {
  const RecordedCollective* last = nullptr;
  for (const RecordedCollective& collective : flight.collectives) {
    const bool begun = collective.started.has_value();
    if (begun && (last == nullptr || collective.ticket > last->ticket)) last = &collective;
  }
  return last;
}

}  // namespace ddprun::launcher
