#include <algorithm>
#include <cstdio>

#include "launcher/hang/hang_report.h"
#include "launcher/hang/worker_activity.h"

namespace ddprun::launcher {

namespace {

using std::chrono::milliseconds;
using Time = RecordedCollective::Time;

std::string Number(double value, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, value < 100 ? "%.1f %s" : "%.0f %s", value, unit);
  return text;
}

std::string Bytes(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1000) return std::to_string(bytes) + " bytes";
  return value < 1e6 ? Number(value / 1e3, "KB") : Number(value / 1e6, "MB");
}

milliseconds Elapsed(Time since, Time now) {
  return std::max(std::chrono::duration_cast<milliseconds>(now - since), milliseconds(0));
}

std::string Since(std::optional<Time> time, Time now) {
  return time ? SecondsText(Elapsed(*time, now)) : "some time";
}

// Returns milliseconds if the time is short, because a job that fails has not waited for long.
std::string ShortSince(std::optional<Time> time, Time then) {
  if (!time) return "some time";
  const milliseconds elapsed = Elapsed(*time, then);
  return elapsed < std::chrono::seconds(1) ? std::to_string(elapsed.count()) + " ms"
                                           : SecondsText(elapsed);
}

}  // namespace

bool IsIn(const WorkerActivity& activity, uint16_t group) {
  if (IsOfAllRanks(group)) return true;
  if (!activity.flight) return false;
  const std::vector<uint16_t>& groups = activity.flight->groups;
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

std::string SecondsText(milliseconds time) {
  return Number(static_cast<double>(std::max(time, milliseconds(0)).count()) / 1000, "s");
}

std::string RankList(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return "rank " + std::to_string(ranks[0]);
  if (ranks.size() == 2)
    return "ranks " + std::to_string(ranks[0]) + " and " + std::to_string(ranks[1]);
  return "ranks " + std::to_string(ranks[0]) + ", " + std::to_string(ranks[1]) + " and " +
         std::to_string(ranks.size() - 2) + (ranks.size() == 3 ? " other" : " others");
}

std::string Describe(const RecordedCollective& collective) {
  std::string text(NameOf(collective.kind));
  if (collective.kind != CollectiveKind::kReceiveFromAny) {
    text += " " + std::to_string(collective.number);
  }
  std::string details;
  if (collective.bucket >= 0) details = "bucket " + std::to_string(collective.bucket);
  if (collective.bytes > 0) {
    details += (details.empty() ? "" : ", ") + Bytes(collective.bytes);
    if (!collective.type.empty()) details += " of " + collective.type;
  }
  if (!details.empty()) text += " (" + details + ")";
  if (collective.step > 0) text += " of step " + std::to_string(collective.step);
  return text;
}

std::string DescribeFlight(const FlightSnapshot& flight, Time now) {
  const RecordedCollective* last = LastCollective(flight);
  if (last == nullptr) return "has begun no collective yet";
  switch (last->state) {
    case CollectiveState::kWaiting:
      return "waits in " + Describe(*last) + " for " + Since(last->started, now);
    case CollectiveState::kStarted:
      return "works in " + Describe(*last) + " for " + Since(last->started, now);
    default:
      return "was last seen in " + Describe(*last) + ", which ended " + Since(last->ended, now) +
             " ago";
  }
}

std::string DescribePastFlight(const FlightSnapshot& flight, Time then) {
  const RecordedCollective* last = LastCollective(flight);
  if (last == nullptr) return "had begun no collective";
  switch (last->state) {
    case CollectiveState::kWaiting:
      return "waited in " + Describe(*last) + " for " + ShortSince(last->started, then);
    case CollectiveState::kStarted:
      return "worked in " + Describe(*last) + " for " + ShortSince(last->started, then);
    default:
      return "was last seen in " + Describe(*last) + ", which had ended " +
             ShortSince(last->ended, then) + " before";
  }
}

}  // namespace ddprun::launcher
