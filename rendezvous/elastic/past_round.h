// What a coordinator knows of the last round of the one before it, which is lost: from the nodes
// that come to it, and from the time that any node needs to notice the loss. Pure.
#pragma once

#include <algorithm>
#include <chrono>
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

  // A node has come. Its own workers have ended.
  void Add(const NodeInfo& info) {
    if (is_over_ || !info.past || info.past->rounds < last_.rounds) return;
    if (info.past->rounds > last_.rounds) came_.clear();
    const int restarts = std::max(last_.restarts, info.past->restarts);
    last_ = *info.past;
    last_.restarts = restarts;
    came_.emplace(info.host, info.pid);
  }
  // The first round of this coordinator starts.
  void End() {
    *this = PastRound(Time());
    is_over_ = true;
  }

  const Past& last() const { return last_; }
  Time others_stopped() const { return others_stopped_; }
  // Returns whether its workers may run on a node that has not come.
  bool MayStillRun(Time now) const {
    const bool all_came = last_.nodes > 0 && static_cast<int>(came_.size()) >= last_.nodes;
    return now < others_stopped_ && !all_came;
  }

 private:
  Time others_stopped_;
  bool is_over_ = false;
  Past last_;
  std::set<std::pair<std::string, int>> came_;  // its nodes that have come: host and pid
};

}  // namespace ddprun::rendezvous
