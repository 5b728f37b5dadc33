#include "launcher/nccl/nccl_finding.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "launcher/hang/worker_activity.h"

namespace ddprun::launcher {

namespace {

constexpr size_t kShownGroups = 4;
constexpr const char* kTitle = "What NCCL's groups recorded (PyTorch's flight recorder):";

// Every rank gives the same number of elements to these. Others may rightly differ: all_to_all.
constexpr std::array<std::string_view, 5> kOfEqualSize = {
    "all_reduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base"};

// A rank in one group. Messages between two ranks do not count.
struct Standing {
  const NcclCall* last = nullptr;   // the call with the highest number
  const NcclCall* waits = nullptr;  // the first call that is not complete
  std::map<int64_t, const NcclCall*> calls = {};
};

struct GroupStanding {
  std::string name;            // "0"
  std::string title;           // "group 0 (default_pg)"
  std::set<int> unknown = {};  // ranks without a dump
  std::map<int, Standing> of_rank = {};
};

struct GroupFinding {
  int importance = 0;  // the greatest names the ranks
  std::vector<int> ranks = {};
  std::string reason = {};
  std::vector<std::string> lines = {};
};

std::string Name(const NcclCall& call) {
  return call.operation + " " + std::to_string(call.number);
}

std::string Where(const NcclCall& call) {
  std::string text = call.input.empty() ? "" : ", " + call.input;
  if (!call.caller.empty()) text += ", called in " + call.caller;
  return text;
}

// The root of a broadcast may be done with it before others come.
std::string Did(const NcclCall& call) {
  return (call.is_complete ? "done with " : "in ") + Name(call) + Where(call);
}

// Ranks that have the same text share a line.
using Texts = std::map<std::string, std::vector<int>>;

std::vector<std::string> Lines(const Texts& texts) {
  std::vector<std::string> lines;
  for (const auto& [text, ranks] : texts) lines.push_back("  " + RankList(ranks) + ": " + text);
  return lines;
}

std::vector<GroupStanding> StandingsOf(std::span<const NcclDump> dumps) {
  std::map<std::pair<std::string, std::vector<int>>, GroupStanding> groups;
  std::set<int> known;
  for (const NcclDump& dump : dumps) known.insert(dump.rank);
  for (const NcclDump& dump : dumps) {
    std::map<std::string, Standing*> by_name;
    for (const NcclGroup& group : dump.groups) {
      GroupStanding& standing = groups[{group.name, group.ranks}];
      standing.name = group.name;
      standing.title =
          "group " + group.name + (group.description.empty() ? "" : " (" + group.description + ")");
      standing.unknown.insert(group.ranks.begin(), group.ranks.end());
      by_name[group.name] = &standing.of_rank[dump.rank];
    }
    for (const NcclCall& call : dump.calls) {
      const auto found = by_name.find(call.group);
      if (call.is_message || found == by_name.end()) continue;
      Standing& rank = *found->second;
      if (rank.last == nullptr || rank.last->number < call.number) rank.last = &call;
      const bool is_earlier = rank.waits == nullptr || call.number < rank.waits->number;
      if (!call.is_complete && is_earlier) rank.waits = &call;
      rank.calls.try_emplace(call.number, &call);
    }
  }
  std::vector<GroupStanding> result;
  for (auto& [key, group] : groups) {
    // A rank that has called nothing of a group does not list it.
    for (const int rank : key.second) {
      if (known.contains(rank)) group.of_rank.try_emplace(rank);
    }
    std::erase_if(group.unknown, [&](int rank) { return known.contains(rank); });
    result.push_back(std::move(group));
  }
  return result;
}

// Returns by rank the first call in which it waits, other than collectives of `group`.
std::map<int, std::string> WaitsElsewhere(std::span<const NcclDump> dumps, std::string_view group) {
  std::map<int, std::string> waits;
  for (const NcclDump& dump : dumps) {
    for (const NcclCall& call : dump.calls) {
      if (call.is_complete || (!call.is_message && call.group == group)) continue;
      waits.try_emplace(dump.rank, Name(call) + " of group " + call.group + Where(call));
    }
  }
  return waits;
}

// The first collective of the group that is not complete, and who came to it.
struct Meeting {
  const NcclCall* call = nullptr;
  std::map<int, const NcclCall*> came = {};
  std::map<int, const NcclCall*> missing = {};  // with their last calls; nullptr: none
};

Meeting MeetingOf(const GroupStanding& group) {
  Meeting meeting;
  for (const auto& [rank, standing] : group.of_rank) {
    const NcclCall* waits = standing.waits;
    if (waits == nullptr) continue;
    if (meeting.call == nullptr || waits->number < meeting.call->number) meeting.call = waits;
  }
  if (meeting.call == nullptr) return meeting;
  for (const auto& [rank, standing] : group.of_rank) {
    const auto call = standing.calls.find(meeting.call->number);
    if (call != standing.calls.end()) {
      meeting.came[rank] = call->second;
    } else if (standing.last == nullptr || standing.last->number < meeting.call->number) {
      meeting.missing[rank] = standing.last;
    }
  }
  return meeting;
}

std::vector<int> RanksOf(const std::map<int, const NcclCall*>& calls) {
  std::vector<int> ranks;
  for (const auto& [rank, call] : calls) ranks.push_back(rank);
  return ranks;
}

GroupFinding ExplainMissing(const GroupStanding& group,
                            const Meeting& meeting,
                            std::span<const NcclDump> dumps) {
  const std::map<int, std::string> elsewhere = WaitsElsewhere(dumps, group.name);
  GroupFinding finding{.importance = 1};
  finding.reason = "has not come to " + Name(*meeting.call) + " of " + group.title;
  // A rank that waits in another group is a victim itself, or both wait for each other.
  for (const auto& [rank, last] : meeting.missing) {
    if (!elsewhere.contains(rank)) finding.ranks.push_back(rank);
  }
  if (!finding.ranks.empty()) finding.importance = 3;
  const std::vector<int> missing = RanksOf(meeting.missing);
  finding.lines = {RankList(missing) + (missing.size() > 1 ? " have" : " has") +
                   finding.reason.substr(3) + ", in which others wait:"};
  Texts texts;
  for (const auto& [rank, call] : meeting.came) {
    texts[Did(*call)].push_back(rank);
  }
  for (const auto& [rank, last] : meeting.missing) {
    std::string text =
        last == nullptr ? "no call of this group yet" : "last call: " + Name(*last) + Where(*last);
    if (elsewhere.contains(rank)) text += "; now in " + elsewhere.at(rank);
    texts[text].push_back(rank);
  }
  for (const std::string& line : Lines(texts)) finding.lines.push_back(line);
  return finding;
}

// Returns what has to be equal on all ranks.
std::pair<std::string, int64_t> EqualParts(const NcclCall& call) {
  const bool sized = std::ranges::find(kOfEqualSize, call.operation) != kOfEqualSize.end();
  return {call.operation, sized ? call.elements : 0};
}

GroupFinding ExplainMeeting(const GroupStanding& group, const Meeting& meeting) {
  GroupFinding finding;
  Texts texts;
  std::map<std::pair<std::string, int64_t>, std::vector<int>> kinds;
  for (const auto& [rank, call] : meeting.came) {
    texts[Did(*call)].push_back(rank);
    kinds[EqualParts(*call)].push_back(rank);
  }
  std::string head;
  if (kinds.size() > 1) {
    finding.importance = 2;
    head = "The ranks of " + group.title + " differ in their collective " +
           std::to_string(meeting.call->number) + ":";
    const auto fewer = [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    };
    const auto least = std::ranges::min_element(kinds, fewer);
    const auto as_few = std::ranges::count_if(
        kinds, [&](const auto& kind) { return kind.second.size() == least->second.size(); });
    // Of two ranks that differ, neither stands out.
    if (as_few == 1) {
      finding.ranks = least->second;
      finding.reason = "differs from the others in " + Name(*meeting.came.at(least->second[0])) +
                       " of " + group.title;
    }
  } else if (!group.unknown.empty()) {
    head = "Ranks wait in " + Name(*meeting.call) + " of " + group.title +
           "; there is no dump here of " + RankList({group.unknown.begin(), group.unknown.end()}) +
           ":";
  } else {
    head = "All ranks of " + group.title + " came to " + Name(*meeting.call) +
           ", which does not end; look at the GPUs and the network (NCCL_DEBUG=INFO):";
  }
  finding.lines = Lines(texts);
  finding.lines.insert(finding.lines.begin(), head);
  return finding;
}

std::vector<std::string> LastCalls(std::span<const NcclDump> dumps) {
  Texts texts;
  for (const NcclDump& dump : dumps) {
    if (dump.calls.empty()) continue;
    const NcclCall& last = dump.calls.back();
    texts["last call: " + Name(last) + " of group " + last.group + Where(last)].push_back(
        dump.rank);
  }
  std::vector<std::string> lines = Lines(texts);
  if (!lines.empty()) lines.insert(lines.begin(), kTitle);
  return lines;
}

}  // namespace

NcclFinding ExplainNccl(std::span<const NcclDump> dumps) {
  NcclFinding result;
  result.last_calls = LastCalls(dumps);
  std::vector<GroupFinding> findings;
  const std::vector<GroupStanding> groups = StandingsOf(dumps);
  for (const GroupStanding& group : groups) {
    const Meeting meeting = MeetingOf(group);
    if (meeting.call == nullptr) continue;
    findings.push_back(meeting.missing.empty() ? ExplainMeeting(group, meeting)
                                               : ExplainMissing(group, meeting, dumps));
  }
  std::ranges::stable_sort(findings, std::ranges::greater(), &GroupFinding::importance);
  if (findings.empty()) {
    Texts texts;
    for (const auto& [rank, wait] : WaitsElsewhere(dumps, "")) {
      texts["in " + wait].push_back(rank);
    }
    if (texts.empty()) return result;
    result.lines = Lines(texts);
    result.lines.insert(result.lines.begin(), kTitle);
    return result;
  }
  result.lines = {kTitle};
  result.ranks = findings[0].ranks;
  result.reason = findings[0].reason;
  for (size_t i = 0; i < std::min(findings.size(), kShownGroups); ++i) {
    result.lines.insert(result.lines.end(), findings[i].lines.begin(), findings[i].lines.end());
  }
  if (findings.size() > kShownGroups) {
    result.lines.push_back("Ranks wait in " + std::to_string(findings.size() - kShownGroups) +
                           " more groups.");
  }
  return result;
}

}  // namespace ddprun::launcher
