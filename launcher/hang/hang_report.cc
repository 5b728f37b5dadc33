#include "launcher/hang/hang_report.h"

#include <algorithm>
#include <cstdio>

namespace ddprun::launcher {

namespace {

using std::chrono::milliseconds;

constexpr size_t kShownRanks = 64;
constexpr size_t kShownWaits = 16;
constexpr size_t kBarWidth = 92;

std::string Number(double value, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, value < 100 ? "%.1f %s" : "%.0f %s", value, unit);
  return text;
}

std::string Seconds(milliseconds time) {
  return Number(static_cast<double>(std::max(time, milliseconds(0)).count()) / 1000, "s");
}

std::string Since(std::optional<RecordedCollective::Time> time, RecordedCollective::Time now) {
  return time ? Seconds(std::chrono::duration_cast<milliseconds>(now - *time)) : "some time";
}

std::string Bytes(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1000) return std::to_string(bytes) + " bytes";
  return value < 1e6 ? Number(value / 1e3, "KB") : Number(value / 1e6, "MB");
}

std::string StateName(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "in the kernel, cannot be interrupted";
    case 'T':
      return "stopped by a signal";
    case 't':
      return "held by a debugger";
    case 'Z':
      return "ended, not yet reaped";
    default:
      return "unknown";
  }
}

// "all_reduce 418 (bucket 3, 25.0 MB of float32) of step 57".
std::string Describe(const RecordedCollective& collective) {
  std::string text = std::string(NameOf(collective.kind)) + " " + std::to_string(collective.number);
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

std::string DescribeFlight(const FlightSnapshot& flight, RecordedCollective::Time now) {
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

std::string Place(const ProcessPlace& place) {
  std::string text = std::string("state ") + place.state + " (" + StateName(place.state) + ")";
  if (!place.where.empty()) text += ", in " + place.where;
  return text;
}

std::string Names(const Standing& standing) {
  return "rank " + std::to_string(standing.rank) +
         " (local_rank: " + std::to_string(standing.local_rank) +
         ", pid: " + std::to_string(standing.pid) + ")";
}

bool IsCulprit(const HangReport& report, const Standing& standing) {
  const std::vector<int>& ranks = report.culprit.ranks;
  return std::find(ranks.begin(), ranks.end(), standing.rank) != ranks.end();
}

// "rank 2", "ranks 2 and 3", "ranks 2, 3 and 14 others".
std::string RankList(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return "rank " + std::to_string(ranks[0]);
  if (ranks.size() == 2)
    return "ranks " + std::to_string(ranks[0]) + " and " + std::to_string(ranks[1]);
  return "ranks " + std::to_string(ranks[0]) + ", " + std::to_string(ranks[1]) + " and " +
         std::to_string(ranks.size() - 2) + (ranks.size() == 3 ? " other" : " others");
}

std::string CulpritSentence(const HangReport& report) {
  const Culprit& culprit = report.culprit;
  if (culprit.ranks.empty()) return "no rank stands out";
  return RankList(culprit.ranks) + (culprit.ranks.size() > 1 ? ", each of which " : " ") +
         culprit.reason;
}

std::string Bar(const std::string& program, bool color) {
  std::string bar = "-- WORKERS HANG ";
  const std::string tail = " " + program;
  if (bar.size() + tail.size() < kBarWidth) bar.append(kBarWidth - bar.size() - tail.size(), '-');
  bar += tail;
  return color ? "\033[1;31m" + bar + "\033[0m\n" : bar + "\n";
}

}  // namespace

std::string Summarize(const HangReport& report) {
  return "no worker has moved for " + Seconds(report.still_for) + ": " + CulpritSentence(report);
}

std::string DescribeStanding(const Standing& standing, std::chrono::steady_clock::time_point now) {
  std::string text;
  if (standing.flight) text = DescribeFlight(*standing.flight, now) + "; ";
  text += Place(standing.place);
  if (!standing.flight) {
    text += "; has not moved for " + Seconds(standing.still_for) + ", nor printed for " +
            Seconds(standing.silent_for);
  }
  return text;
}

std::string RenderHang(const HangReport& report, const std::string& program, bool color) {
  std::string text = Bar(program, color);
  text += "No worker of this node has moved for " + Seconds(report.still_for) +
          " (--hang_timeout=" + Seconds(report.timeout) + ").\n";
  text += "The others wait for: " + CulpritSentence(report) + ".\n";
  std::vector<Standing> ordered = report.standings;
  std::stable_sort(ordered.begin(), ordered.end(), [&](const Standing& a, const Standing& b) {
    return IsCulprit(report, a) && !IsCulprit(report, b);
  });
  for (size_t i = 0; i < std::min(ordered.size(), kShownRanks); ++i) {
    text += "  " + Names(ordered[i]) + " " + DescribeStanding(ordered[i], report.now) + "\n";
  }
  if (ordered.size() > kShownRanks) {
    text += "  and " + std::to_string(ordered.size() - kShownRanks) + " more ranks\n";
  }
  if (!report.waits.empty()) text += "Waits in the store:\n";
  for (size_t i = 0; i < std::min(report.waits.size(), kShownWaits); ++i) {
    text += "  " + Describe(report.waits[i]) + "\n";
  }
  text += "The stacks that the workers printed when they were ended stand above.\n";
  text += "See docs/errors.md#workers-hang\n";
  return text;
}

}  // namespace ddprun::launcher
