// A RoundState with nodes that answer at once.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/elastic/round_state.h"

namespace ddprun::rendezvous {

class RoundStateTest : public testing::Test {
 protected:
  void Make(int min_nodes, int max_nodes, int max_restarts = 0, int spares = 0) {
    JobRules rules;
    rules.min_nodes = min_nodes;
    rules.max_nodes = max_nodes;
    rules.max_restarts = max_restarts;
    rules.spares = spares;
    state_.emplace(rules);
  }

  // Keeps what was told to whom, and answers at once for nodes that behave.
  void Take(const Actions& actions) {
    for (const Outgoing& outgoing : actions) {
      log_.push_back(outgoing);
      if (!answering_) continue;
      if (const auto* open = std::get_if<OpenStore>(&outgoing.what)) {
        Take(state_->OnOpened(outgoing.to, open->attempt, {"10.0.0.1", 4000}));
      } else if (const auto* reach = std::get_if<ReachStore>(&outgoing.what)) {
        memberships_[outgoing.to] = reach->membership;
        attempt_ = reach->attempt;
        Take(state_->OnReached(outgoing.to, reach->attempt));
      }
    }
  }

  void Join(NodeId id, std::optional<int> wish = {}) {
    NodeInfo info;
    info.host = id > 26 ? "host" : std::string(1, static_cast<char>('a' + id - 1));
    info.pid = static_cast<int>(100 + id);
    info.wished_rank = wish;
    Take(state_->OnJoin(id, info, now_));
  }
  void End(NodeId id, RoundEnd::Kind kind, const std::string& message = "rank 1 exited") {
    Take(state_->OnEnd(id, attempt_, {.kind = kind, .message = message}, now_));
  }
  void Leave(NodeId id) { Take(state_->OnLeave(id, attempt_, now_)); }
  void Lose(NodeId id) { Take(state_->OnGone(id, "its connection was closed", now_)); }
  void Pass(std::chrono::milliseconds time) {
    now_ += time;
    Take(state_->OnTime(now_));
  }

  template <typename What>
  std::vector<NodeId> Told() const {
    std::vector<NodeId> told;
    for (const Outgoing& outgoing : log_) {
      if (std::holds_alternative<What>(outgoing.what)) told.push_back(outgoing.to);
    }
    std::ranges::sort(told);
    return told;
  }
  template <typename What>
  const What& Last() const {
    const What* last = nullptr;
    for (const Outgoing& outgoing : log_) {
      if (const auto* what = std::get_if<What>(&outgoing.what)) last = what;
    }
    EXPECT_NE(last, nullptr);
    static const What none{};
    return last == nullptr ? none : *last;
  }

  std::optional<RoundState> state_;
  RoundState::Time now_ = RoundState::Time() + std::chrono::hours(1);
  bool answering_ = true;
  std::vector<Outgoing> log_;
  std::map<NodeId, Membership> memberships_;
  int64_t attempt_ = 0;
};

}  // namespace ddprun::rendezvous
