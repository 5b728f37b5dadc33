#include "launcher/hang/hang_report.h"

#include <algorithm>

#include "base/text.h"
#include "launcher/hang/worker_activity.h"

namespace ddprun::launcher {

namespace {

using std::chrono::milliseconds;

constexpr size_t kShownRanks = 64;
constexpr size_t kShownEnded = 16;
constexpr size_t kShownWaits = 16;
constexpr size_t kShownLog = 3;
constexpr size_t kShownLinks = 4;

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

std::string Place(const ProcessPlace& place) {
  std::string text = std::string("state ") + place.state + " (" + StateName(place.state) + ")";
  if (!place.where.empty()) text += ", in " + place.where;
  return text;
}

std::string Names(const WorkerActivity& activity) {
  return "rank " + std::to_string(activity.rank) +
         " (local_rank: " + std::to_string(activity.local_rank) +
         ", pid: " + std::to_string(activity.pid) + ")";
}

bool IsCulprit(const HangReport& report, const WorkerActivity& activity) {
  const std::vector<int>& ranks = report.culprit.ranks;
  return std::find(ranks.begin(), ranks.end(), activity.rank) != ranks.end();
}

bool HasFlight(const WorkerActivity& activity) {
  return activity.flight.has_value();
}

std::string CulpritSentence(const HangReport& report) {
  const Culprit& culprit = report.culprit;
  if (culprit.ranks.empty()) return "no rank stands out";
  return RankList(culprit.ranks) + (culprit.ranks.size() > 1 ? ", each of which " : " ") +
         culprit.reason;
}

// Returns the sentence about the culprits, or the dead links that explain why ranks wait.
std::string ReasonLines(const HangReport& report) {
  std::string text;
  for (size_t i = 0; i < std::min(report.dead_links.size(), kShownLinks); ++i) {
    text += "A link between nodes is dead: " + Describe(report.dead_links[i]) + ".\n";
  }
  if (!text.empty()) return text + "`ddprun doctor --nodes` tests the links of all nodes.\n";
  if (!report.culprit.ranks.empty()) {
    return "The others wait for: " + CulpritSentence(report) + ".\n";
  }
  text = "No rank stands out.\n";
  if (report.several_nodes) {
    text +=
        "The output of the other nodes may name a rank or a dead link. `ddprun doctor --nodes` "
        "tests\nthe links of all nodes.\n";
  }
  return text;
}

std::string EndedLines(const HangReport& report) {
  std::string text;
  for (size_t i = 0; i < std::min(report.ended.size(), kShownEnded); ++i) {
    const WorkerActivity& ended = report.ended[i];
    text += "  " + Names(ended) + " has ended with code 0";
    if (ended.flight) text += "; " + DescribeFlight(*ended.flight, report.now);
    text += "\n";
  }
  if (report.ended.size() > kShownEnded) {
    text += "  and " + std::to_string(report.ended.size() - kShownEnded) + " more have ended so\n";
  }
  return text;
}

// Returns the ranks of the group if the rank's collective is not of all ranks, else "".
std::string GroupText(const HangReport& report, const WorkerActivity& activity) {
  const RecordedCollective* last = activity.flight ? LastCollective(*activity.flight) : nullptr;
  if (last == nullptr || IsOfAllRanks(last->group)) return "";
  std::vector<int> ranks;
  for (const WorkerActivity& one : report.activities) {
    if (IsIn(one, last->group)) ranks.push_back(one.rank);
  }
  return ranks.empty() ? "" : "; its group here: " + RankList(ranks);
}

// Returns the last log lines of a culprit.
std::string LogLines(const HangReport& report, const WorkerActivity& activity) {
  std::string text;
  if (!IsCulprit(report, activity) || !activity.flight) return text;
  const std::vector<std::string>& log = activity.flight->log;
  for (size_t i = log.size() - std::min(log.size(), kShownLog); i < log.size(); ++i) {
    text += "    | " + log[i] + "\n";
  }
  return text;
}

}  // namespace

std::string Summarize(const HangReport& report) {
  return "no worker has moved for " + SecondsText(report.still_for) + ": " +
         (report.dead_links.empty() ? CulpritSentence(report) : Describe(report.dead_links[0]));
}

std::string DescribeActivity(const WorkerActivity& activity,
                             std::chrono::steady_clock::time_point now) {
  std::string text;
  if (activity.flight) text = DescribeFlight(*activity.flight, now) + "; ";
  text += Place(activity.place);
  if (!activity.flight) {
    text += "; has not moved for " + SecondsText(activity.still_for) + ", nor printed for " +
            SecondsText(activity.silent_for);
  }
  return text;
}

std::string RenderHang(const HangReport& report,
                       const std::string& program,
                       const TextStyle& style) {
  std::string text = TitleBar("WORKERS HANG", program, style.columns, style.color);
  text += "No worker of this node has moved for " + SecondsText(report.still_for) +
          " (--hang_timeout=" + SecondsText(report.timeout) + ").\n";
  text += ReasonLines(report);
  if (report.culprit.ranks.empty() && report.dead_links.empty() && report.nccl.empty() &&
      std::ranges::none_of(report.activities, &HasFlight)) {
    text +=
        "These workers leave no record of their collectives. Compare their stacks: a rank in "
        "another\n"
        "line of your program calls another collective, or none. `py-spy dump --pid PID` shows "
        "the\n"
        "stack of a Python worker that still hangs (start without --hang_timeout).\n";
  }
  text += EndedLines(report);
  std::vector<WorkerActivity> ordered = report.activities;
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const WorkerActivity& a, const WorkerActivity& b) {
                     return IsCulprit(report, a) && !IsCulprit(report, b);
                   });
  for (size_t i = 0; i < std::min(ordered.size(), kShownRanks); ++i) {
    text += "  " + Names(ordered[i]) + " " + DescribeActivity(ordered[i], report.now) +
            GroupText(report, ordered[i]) + "\n" + LogLines(report, ordered[i]);
  }
  if (ordered.size() > kShownRanks) {
    text += "  and " + std::to_string(ordered.size() - kShownRanks) + " more ranks\n";
  }
  if (!report.waits.empty()) text += "Waits in the store:\n";
  for (size_t i = 0; i < std::min(report.waits.size(), kShownWaits); ++i) {
    text += "  " + Describe(report.waits[i]) + "\n";
  }
  for (const std::string& line : report.nccl) text += line + "\n";
  if (report.printed_stacks) {
    text += "The stacks that the workers printed when they were ended stand above.\n";
  }
  text += "More: ddprun explain workers-hang\n";
  return text;
}

}  // namespace ddprun::launcher
