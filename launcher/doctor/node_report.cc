#include "launcher/doctor/node_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "base/text.h"
#include "launcher/doctor/node_pairs.h"

namespace ddprun::launcher {

namespace {

constexpr double kSlowShare = 1.0 / 3;       // of the median bandwidth
constexpr double kLateTimes = 5;             // times the median latency
constexpr double kLateUs = 1000;             // and this much more
constexpr double kClockMs = 1000;            // further from the other clocks
constexpr int64_t kLittleSpace = 1ll << 30;  // for checkpoints
constexpr size_t kLinksToCompare = 6;        // of three nodes, both directions

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

const std::string& HostOf(const NodesTest& test, int node) {
  return test.nodes[static_cast<size_t>(node)].host;
}

std::string LinkName(const NodesTest& test, int from, int to) {
  return HostOf(test, from) + " -> " + HostOf(test, to);
}

// One finding for each node and link that explains the `bad` links. `text` describes a bad link.
void BlameLinks(const NodesTest& test,
                const std::string& name,
                Verdict verdict,
                const std::function<std::string(const LinkFacts&)>& text,
                const std::string& remedy,
                std::vector<Finding>& findings) {
  std::vector<NodePair> failed;
  std::map<std::pair<int, int>, std::string> texts;
  for (const LinkFacts& link : test.links) {
    std::string problem = text(link);
    if (problem.empty()) continue;
    failed.push_back({link.from, link.to});
    texts[{link.from, link.to}] = std::move(problem);
  }
  const Blame blame = BlameFor(failed, static_cast<int>(test.nodes.size()));
  for (const int node : blame.nodes) {
    const auto of_node = [node](const NodePair& pair) {
      return pair.from == node || pair.to == node;
    };
    const NodePair first = *std::ranges::find_if(failed, of_node);
    findings.push_back({.name = name,
                        .verdict = verdict,
                        .what = "host " + HostOf(test, node) + ": " +
                                std::to_string(std::ranges::count_if(failed, of_node)) +
                                " of its links, such as " + LinkName(test, first.from, first.to) +
                                ": " + texts[{first.from, first.to}],
                        .remedy = remedy,
                        .facts = {{"host", HostOf(test, node)}}});
  }
  for (const NodePair& link : blame.links) {
    findings.push_back(
        {.name = name,
         .verdict = verdict,
         .what = "link " + LinkName(test, link.from, link.to) + ": " + texts[{link.from, link.to}],
         .remedy = remedy,
         .facts = {{"from", HostOf(test, link.from)}, {"to", HostOf(test, link.to)}}});
  }
}

// One finding for each node whose value is not that of most nodes.
template <typename Value>
void CompareNodes(const NodesTest& test,
                  const std::string& name,
                  Verdict verdict,
                  Value NodeFacts::*field,
                  const std::string& remedy,
                  std::vector<Finding>& findings) {
  const auto text = [](const Value& value) {
    if constexpr (std::is_same_v<Value, std::string>) {
      return value.empty() ? std::string("nothing") : value;
    } else {
      return std::to_string(value);
    }
  };
  std::map<Value, int> counts;
  for (const NodeFacts& node : test.nodes) ++counts[node.*field];
  if (counts.empty()) return;
  const auto most = std::ranges::max_element(
      counts, {}, [](const auto& value_and_count) { return value_and_count.second; });
  for (const NodeFacts& node : test.nodes) {
    if (node.*field == most->first) continue;
    findings.push_back({.name = name,
                        .verdict = verdict,
                        .what = "host " + node.host + " has " + text(node.*field) + "; " +
                                CountText(most->second, "other") + ": " + text(most->first),
                        .remedy = remedy,
                        .facts = {{"host", node.host}}});
  }
}

// The clock of each node minus that of the first; NaN means unknown.
std::vector<double> Clocks(const NodesTest& test) {
  std::vector<double> clocks(test.nodes.size(), std::nan(""));
  if (!clocks.empty()) clocks[0] = 0;
  for (const LinkFacts& link : test.links) {
    if (!link.problem.empty()) continue;
    if (link.from == 0) clocks[static_cast<size_t>(link.to)] = link.clock_ms;
    if (link.to == 0) clocks[static_cast<size_t>(link.from)] = -link.clock_ms;
  }
  return clocks;
}

void JudgeClocks(const NodesTest& test, std::vector<Finding>& findings) {
  const std::vector<double> clocks = Clocks(test);
  std::vector<double> known = clocks;
  std::erase_if(known, [](double clock) { return std::isnan(clock); });
  const double middle = Median(known);
  for (size_t i = 0; i < clocks.size(); ++i) {
    const double off = clocks[i] - middle;
    if (std::isnan(off) || std::abs(off) <= kClockMs) continue;
    findings.push_back({.name = "clock",
                        .verdict = Verdict::kNote,
                        .what = "host " + test.nodes[i].host + " is " +
                                std::to_string(std::lround(off)) + " ms off the other clocks",
                        .remedy = "Let chrony or ntpd set it: the times in logs do not compare.",
                        .facts = {{"host", test.nodes[i].host}}});
  }
}

void JudgeSpeed(const NodesTest& test, std::vector<Finding>& findings) {
  std::vector<double> speeds;
  std::vector<double> latencies;
  for (const LinkFacts& link : test.links) {
    if (!link.problem.empty()) continue;
    speeds.push_back(link.mbit_per_s);
    latencies.push_back(link.latency_us);
  }
  if (speeds.size() < kLinksToCompare) return;
  const double speed = Median(speeds);
  const double latency = Median(latencies);
  const auto slow = [&](const LinkFacts& link) -> std::string {
    if (!link.problem.empty() || link.mbit_per_s >= kSlowShare * speed) return "";
    return std::to_string(std::lround(link.mbit_per_s)) + " Mbit/s; the median is " +
           std::to_string(std::lround(speed));
  };
  const auto late = [&](const LinkFacts& link) -> std::string {
    if (!link.problem.empty() || link.latency_us <= kLateTimes * latency + kLateUs) return "";
    return std::to_string(std::lround(link.latency_us)) + " us there and back; the median is " +
           std::to_string(std::lround(latency));
  };
  BlameLinks(test, "bandwidth", Verdict::kNote, slow, "Compare cable, port and interface.",
             findings);
  BlameLinks(test, "latency", Verdict::kNote, late, "Compare the ways of the packets (traceroute).",
             findings);
}

void JudgeFolder(const NodesTest& test, std::vector<Finding>& findings) {
  if (test.nodes.empty()) return;
  const std::string& folder = test.nodes.front().folder;
  Finding finding{.name = "shared folder", .verdict = Verdict::kNote};
  if (!test.file_problem.empty()) {
    finding.what = HostOf(test, 0) + " cannot write in " + folder + ": " + test.file_problem;
    finding.remedy = "Start in a folder in which you may write, to test that all nodes share it.";
    findings.push_back(std::move(finding));
  } else if (!test.without_file.empty()) {
    std::vector<std::string> hosts;
    for (const int node : test.without_file) hosts.push_back(HostOf(test, node));
    const bool none = hosts.size() + 1 == test.nodes.size();
    if (!none) finding.verdict = Verdict::kMissing;
    finding.what = "a file that " + HostOf(test, 0) + " wrote in " + folder + " is not seen by " +
                   FormatList(hosts);
    finding.remedy = "Checkpoints belong in a folder that all nodes share: mount it there.";
    findings.push_back(std::move(finding));
  }
  for (const NodeFacts& node : test.nodes) {
    if (node.free_bytes >= kLittleSpace) continue;
    findings.push_back({.name = "free space",
                        .verdict = Verdict::kNote,
                        .what = "host " + node.host + " has " + FormatBytes(node.free_bytes) +
                                " left in " + node.folder,
                        .remedy = "A checkpoint may not fit.",
                        .facts = {{"host", node.host}}});
  }
}

}  // namespace

std::vector<Finding> JudgeNodes(const NodesTest& test) {
  std::vector<Finding> findings;
  for (const std::string& host : test.missing) {
    findings.push_back(
        {.name = "meeting",
         .verdict = Verdict::kMissing,
         .what = host + " did not come",
         .remedy = "See its own output; check that it reaches the first node's port.",
         .facts = {{"host", host}}});
  }
  for (const std::string& host : test.silent) {
    findings.push_back({.name = "meeting",
                        .verdict = Verdict::kMissing,
                        .what = "host " + host + " came, and was lost during the test",
                        .remedy = "See its own output, and whether the machine still runs.",
                        .facts = {{"host", host}}});
  }
  BlameLinks(
      test, "connection", Verdict::kMissing, [](const LinkFacts& link) { return link.problem; },
      "Check firewall, routes, cable and MTU: ranks use any port between all nodes.", findings);
  BlameLinks(
      test, "name", Verdict::kMissing, [](const LinkFacts& link) { return link.name_problem; },
      "Correct /etc/hosts or the name server there.", findings);
  CompareNodes(test, "ddprun", Verdict::kMissing, &NodeFacts::ddprun,
               "Install one version on all nodes.", findings);
  CompareNodes(test, "ddp-trainer", Verdict::kMissing, &NodeFacts::trainer,
               "Install one version on all nodes.", findings);
  CompareNodes(test, "user", Verdict::kMissing, &NodeFacts::user,
               "Give the user one number (uid) on all nodes, or files cannot be shared.", findings);
  JudgeFolder(test, findings);
  CompareNodes(test, "MTU", Verdict::kNote, &NodeFacts::mtu,
               "Set one MTU on all nodes: ip link set DEVICE mtu BYTES", findings);
  JudgeSpeed(test, findings);
  JudgeClocks(test, findings);
  std::ranges::stable_sort(findings, std::ranges::greater(), &Finding::verdict);
  if (findings.empty()) {
    findings.push_back({.name = "nodes",
                        .what = CountText(static_cast<int64_t>(test.nodes.size()), "node") + ", " +
                                CountText(static_cast<int64_t>(test.links.size()), "link") +
                                " (each direction counts): all work"});
  }
  return findings;
}

std::string NodesTable(const NodesTest& test) {
  std::string table;
  const auto add = [&table](const char* node, const char* address, const char* mtu,
                            const char* clock, const char* latency, const char* least) {
    char line[128];
    std::snprintf(line, sizeof line, "%-20.20s %-16.16s %6s %9s %10s %12s\n", node, address, mtu,
                  clock, latency, least);
    table += line;
  };
  add("node", "address", "MTU", "clock ms", "latency us", "least Mbit/s");
  const std::vector<double> clocks = Clocks(test);
  const auto text = [](double value) {
    return std::isfinite(value) ? std::to_string(std::lround(value)) : std::string("-");
  };
  for (size_t i = 0; i < test.nodes.size(); ++i) {
    const NodeFacts& node = test.nodes[i];
    std::vector<double> latencies;
    double least = INFINITY;
    for (const LinkFacts& link : test.links) {
      const bool of_node = link.from == static_cast<int>(i) || link.to == static_cast<int>(i);
      if (!of_node || !link.problem.empty()) continue;
      latencies.push_back(link.latency_us);
      least = std::min(least, link.mbit_per_s);
    }
    add(node.host.c_str(), node.addresses.empty() ? "-" : node.addresses.front().c_str(),
        std::to_string(node.mtu).c_str(), text(clocks[i]).c_str(),
        text(latencies.empty() ? INFINITY : Median(latencies)).c_str(), text(least).c_str());
  }
  return table;
}

}  // namespace ddprun::launcher
