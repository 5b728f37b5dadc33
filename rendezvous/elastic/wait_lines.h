// When a new line about the wait goes to the nodes that wait. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>

namespace ddprun::rendezvous {

class WaitLines {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Returns whether `line` is to be sent now to `nodes` nodes: it is new, and the last one was sent
  // some time ago, because a thousand nodes may come within a second.
  bool Take(const std::string& line, int nodes, Time now) {
    constexpr std::chrono::milliseconds kPause{1000};
    constexpr std::chrono::milliseconds kPausePerNode{1};
    if (line == last_ || now < next_) return false;
    last_ = line;
    next_ = now + std::max(kPause, nodes * kPausePerNode);
    return true;
  }
  void Forget() { last_.clear(); }

  const std::string& last() const { return last_; }
  Time next() const { return next_; }  // before it, no line is sent

 private:
  std::string last_;
  Time next_;
};

}  // namespace ddprun::rendezvous
