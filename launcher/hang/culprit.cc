#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "launcher/hang/hang_report.h"

namespace ddprun::launcher {

namespace {

using Activities = std::span<const WorkerActivity>;

template <typename Predicate>
std::vector<int> RanksThat(Activities activities, const Predicate& predicate) {
  std::vector<int> ranks;
  for (const WorkerActivity& activity : activities) {
    if (predicate(activity)) ranks.push_back(activity.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// A reason that is true of all ranks, or of none, does not name a culprit.
bool IsSomeOf(const std::vector<int>& ranks, Activities activities) {
  return !ranks.empty() && ranks.size() < activities.size();
}

Culprit FindStopped(Activities activities) {
  return {RanksThat(
              activities,
              [](const WorkerActivity& s) { return s.place.state == 'T' || s.place.state == 't'; }),
          "is stopped (state T): by SIGSTOP, or by a debugger"};
}

// Returns the highest number of a collective of the group that the rank has recorded.
uint64_t NumberIn(const WorkerActivity& activity, uint16_t group) {
  uint64_t number = 0;
  if (!activity.flight) return number;
  for (const RecordedCollective& collective : activity.flight->collectives) {
    if (collective.group != group || IsMessage(collective.kind)) continue;
    number = std::max(number, collective.number);
  }
  return number;
}

Culprit FindMissing(Activities activities) {
  const RecordedCollective* awaited = nullptr;  // the earliest in which a rank waits
  for (const WorkerActivity& activity : activities) {
    if (!activity.flight) continue;
    for (const RecordedCollective& collective : activity.flight->collectives) {
      if (collective.state != CollectiveState::kWaiting) continue;
      if (IsMessage(collective.kind)) continue;
      if (awaited == nullptr || collective.number < awaited->number) awaited = &collective;
    }
  }
  if (awaited == nullptr) return {};
  return {RanksThat(activities,
                    [&](const WorkerActivity& s) {
                      return IsIn(s, awaited->group) &&
                             NumberIn(s, awaited->group) < awaited->number;
                    }),
          "has not come to " + std::string(NameOf(awaited->kind)) + " " +
              std::to_string(awaited->number)};
}

// Finds the first rank that does not wait although another rank waits for its message.
Culprit FindNotSent(Activities activities) {
  std::map<int, int> awaited;  // sender's rank -> a rank that waits for the sender
  std::set<int> waiting;
  for (const WorkerActivity& activity : activities) {
    if (!activity.flight) continue;
    for (const RecordedCollective& collective : activity.flight->collectives) {
      if (collective.state != CollectiveState::kWaiting) continue;
      waiting.insert(activity.rank);
      if (collective.kind != CollectiveKind::kReceive) continue;
      awaited.emplace(static_cast<int>(collective.number), activity.rank);
    }
  }
  std::erase_if(awaited, [&](const auto& one) { return waiting.contains(one.first); });
  if (awaited.empty()) return {};
  const int sender = awaited.begin()->first;
  return {RanksThat(activities, [&](const WorkerActivity& s) { return s.rank == sender; }),
          "has not sent what rank " + std::to_string(awaited.begin()->second) + " waits for"};
}

Culprit FindInKernel(Activities activities) {
  return {RanksThat(activities, [](const WorkerActivity& s) { return s.place.state == 'D'; }),
          "hangs in the kernel (state D)"};
}

Culprit FindNotInStore(Activities activities, std::span<const StoreWait> waits) {
  std::set<int> waiting;
  for (const StoreWait& wait : waits) {
    if (wait.rank) waiting.insert(*wait.rank);
  }
  if (waiting.empty()) return {};
  return {RanksThat(activities, [&](const WorkerActivity& s) { return !waiting.contains(s.rank); }),
          "does not wait in the store, where others do"};
}

Culprit FindOddOneOut(Activities activities) {
  if (activities.size() < 3) return {};
  std::map<std::optional<long>, size_t> calls;
  for (const WorkerActivity& activity : activities) ++calls[activity.place.system_call];
  const auto odd =
      std::find_if(calls.begin(), calls.end(), [](const auto& c) { return c.second == 1; });
  if (calls.size() != 2 || odd == calls.end()) return {};
  return {RanksThat(activities,
                    [&](const WorkerActivity& s) { return s.place.system_call == odd->first; }),
          "is somewhere else than the others"};
}

Culprit FindFirstToStop(Activities activities) {
  if (activities.size() < 2) return {};
  std::vector<std::chrono::milliseconds> times;
  for (const WorkerActivity& activity : activities) times.push_back(activity.still_for);
  std::sort(times.rbegin(), times.rend());
  // The others stop later, because they wait for the culprit. Small differences say nothing.
  if (times[0] < times[1] * 3 / 2) return {};
  return {RanksThat(activities, [&](const WorkerActivity& s) { return s.still_for == times[0]; }),
          "stopped moving long before the others"};
}

}  // namespace

Culprit FindAwaited(Activities activities) {
  if (Culprit stopped = FindStopped(activities); !stopped.ranks.empty()) return stopped;
  for (Culprit& found : std::vector<Culprit>{FindMissing(activities), FindNotSent(activities)}) {
    if (IsSomeOf(found.ranks, activities)) return std::move(found);
  }
  return {};
}

Culprit FindCulprit(Activities activities, std::span<const StoreWait> waits) {
  if (Culprit awaited = FindAwaited(activities); !awaited.ranks.empty()) return awaited;
  for (Culprit& found :
       std::vector<Culprit>{FindInKernel(activities), FindNotInStore(activities, waits),
                            FindOddOneOut(activities), FindFirstToStop(activities)}) {
    if (IsSomeOf(found.ranks, activities)) return std::move(found);
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
