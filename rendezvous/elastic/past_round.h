// Whether workers of the round before may still run on nodes that the coordinator does not hear:
// those of the last round of another coordinator, which is lost, and single nodes. Each node ends
// its workers some time after it hears nothing. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/elastic/round_actions.h"

namespace ddprun::rendezvous {

class PastRound {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // By `others_stopped` the workers of that round have ended on all nodes.
  explicit PastRound(Time others_stopped) : others_stopped_(others_stopped) {}

  // A node has come. Its own workers have ended. Raises the job's numbers of rounds and restarts.
  void Add(const NodeInfo& info, int& rounds, int& restarts) {
    RemoveSilent({info.host, info.pid});
    if (is_over_ || !info.past || info.past->rounds < last_.rounds) return;
    if (info.past->rounds > last_.rounds) came_.clear();
    last_ = *info.past;
    rounds = std::max(rounds, last_.rounds);
    restarts = std::max(restarts, last_.restarts);
    came_.emplace(info.host, info.pid);
  }
  // A node is heard no longer. By `stopped` its workers have ended; Time() is before now.
  void AddSilent(const NodeInfo& info, Time stopped) {
    if (stopped == Time()) return;
    const Process process(info.host, info.pid);
    RemoveSilent(process);
    silent_[process] = stopped;
    by_time_.emplace(stopped, process);
  }
  // A node leaves for good, and its workers may run until its connection ends.
  void AddLeaving(NodeId id, const NodeInfo& info) { leaving_[id] = info; }
  // The node's connection has ended. Its workers have ended, or will have by `stopped`.
  void EndLeaving(NodeId id, Time stopped) {
    const auto node = leaving_.extract(id);
    if (!node.empty()) AddSilent(node.mapped(), stopped);
  }
  // A round of this coordinator starts.
  void End() {
    *this = PastRound(Time());
    is_over_ = true;
  }

  // Returns when no worker runs any longer on nodes that have not come; Time::max() is not known.
  Time all_stopped() const {
    if (!leaving_.empty()) return Time::max();
    const bool all_came = last_.nodes > 0 && static_cast<int>(came_.size()) >= last_.nodes;
    const Time others = all_came ? Time() : others_stopped_;
    return by_time_.empty() ? others : std::max(others, by_time_.rbegin()->first);
  }

 private:
  using Process = std::pair<std::string, int>;  // an agent: host and pid

  void RemoveSilent(const Process& process) {
    const auto node = silent_.extract(process);
    if (!node.empty()) by_time_.erase({node.mapped(), process});
  }

  Time others_stopped_;
  bool is_over_ = false;
  Past last_;
  std::set<Process> came_;  // its nodes that have come
  std::map<Process, Time> silent_;
  std::set<std::pair<Time, Process>> by_time_;  // of silent_, because each event asks for the last
  std::map<NodeId, NodeInfo> leaving_;
};

}  // namespace ddprun::rendezvous
