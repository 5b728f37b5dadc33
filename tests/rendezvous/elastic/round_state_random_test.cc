// Nodes that do anything at any time, with messages that take any time: whatever the schedule, each
// round is one consistent world, nobody waits for ever, and all hear the same end.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "rendezvous/elastic/round_state.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::seconds;
using Kind = RoundEnd::Kind;

struct SimNode {
  enum class Phase { kJoining, kRunning, kStopping, kLeaving, kGone };
  Phase phase = Phase::kJoining;
  std::deque<Outgoing> inbox;                   // on the way from the coordinator
  std::deque<std::function<Actions()>> outbox;  // on the way to it
  int64_t attempt = -1;
  std::optional<Membership> next;
  std::optional<Membership> membership;
  std::string result;  // how the job ended for it
};

class Simulation {
 public:
  explicit Simulation(unsigned seed) : random_(seed) {
    rules_.max_nodes = Pick(1, 5);
    rules_.min_nodes = Pick(1, rules_.max_nodes);
    rules_.max_restarts = Pick(0, 3);
    rules_.spares = Pick(0, 2);
    state_.emplace(rules_);
  }

  void Run() {
    for (int step = 0; step < 300; ++step) Step();
    // Everything that is on the way arrives, everybody finishes, time passes.
    for (int turn = 0; turn < 100; ++turn) {
      while (Deliver()) {
      }
      for (auto& [id, node] : nodes_) {
        if (node.phase == SimNode::Phase::kRunning) Finish(id, node);
        if (node.phase == SimNode::Phase::kStopping) Rejoin(id, node);
      }
      if (const auto next = state_->NextDeadline()) {
        now_ = std::max(now_, *next);
        Take(state_->OnTime(now_));
      }
    }
    for (auto& [id, node] : nodes_) {
      const bool spare = state_->done() ? false : node.phase == SimNode::Phase::kJoining;
      if (node.phase == SimNode::Phase::kGone || spare) continue;
      ADD_FAILURE() << "node " << id << " is stuck";
    }
    CheckResults();
  }

  int num_stand_ins = 0;

 private:
  int Pick(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  void Step() {
    const int what = Pick(0, 99);
    if (what < 70 && Deliver()) return;
    if (what < 76 && nodes_.size() < 12) return Add();
    now_ += seconds(Pick(0, 20));
    Take(state_->OnTime(now_));
    if (nodes_.empty()) return;
    auto& [id, node] = *std::next(nodes_.begin(), Pick(0, static_cast<int>(nodes_.size()) - 1));
    if (node.phase == SimNode::Phase::kGone) return;
    if (what < 80) return Kill(id, node);
    if (what < 81) return Withdraw(id, node);
    if (node.phase == SimNode::Phase::kStopping) return Rejoin(id, node);
    if (node.phase != SimNode::Phase::kRunning) return;
    what < 92 ? Fail(id, node) : Finish(id, node);
  }

  void Add() {
    const NodeId id = ++last_id_;
    SimNode& node = nodes_[id];
    info_[id].wished_rank = Pick(0, 1) == 0 ? std::optional<int>() : Pick(0, 5);
    info_[id].local_world_size = Pick(1, 3);
    Rejoin(id, node);
  }

  void Rejoin(NodeId id, SimNode& node) {
    node.phase = SimNode::Phase::kJoining;
    node.outbox.push_back([this, id] { return state_->OnJoin(id, info_[id], now_); });
  }

  // One restart rule for all nodes.
  void Fail(NodeId id, SimNode& node) {
    const bool again = node.membership->restart_count < rules_.max_restarts;
    const Kind kind = again ? Kind::kRestart : Kind::kJobFailed;
    node.outbox.push_back([this, id, kind, attempt = node.attempt] {
      return state_->OnEnd(id, attempt,
                           {.kind = kind, .message = "failure of " + std::to_string(id)}, now_);
    });
  }

  void Finish(NodeId id, SimNode& node) {
    node.phase = SimNode::Phase::kLeaving;
    node.outbox.push_back(
        [this, id, attempt = node.attempt] { return state_->OnLeave(id, attempt, now_); });
  }

  void Kill(NodeId id, SimNode& node) {
    node.phase = SimNode::Phase::kGone;
    node.inbox.clear();
    node.outbox.push_back([this, id] { return state_->OnGone(id, "killed", now_); });
  }

  void Withdraw(NodeId id, SimNode& node) {
    node.outbox.push_back(
        [this, id] { return state_->OnWithdraw(id, {.message = "stopped"}, false, now_); });
    Kill(id, node);
  }

  // Some message arrives; false when none is on the way.
  bool Deliver() {
    std::vector<std::pair<NodeId, bool>> ways;
    for (auto& [id, node] : nodes_) {
      if (!node.inbox.empty()) ways.emplace_back(id, true);
      if (!node.outbox.empty()) ways.emplace_back(id, false);
    }
    if (ways.empty()) return false;
    const auto [id, inward] = ways[static_cast<size_t>(Pick(0, static_cast<int>(ways.size()) - 1))];
    SimNode& node = nodes_[id];
    if (inward) {
      const Outgoing outgoing = node.inbox.front();
      node.inbox.pop_front();
      std::visit([&, to = id](const auto& what) { Hear(to, nodes_[to], what); }, outgoing.what);
    } else {
      const auto send = node.outbox.front();
      node.outbox.pop_front();
      Take(send());
    }
    return true;
  }

  void Take(const Actions& actions) {
    for (const Outgoing& outgoing : actions) {
      SimNode& node = nodes_[outgoing.to];
      if (node.phase != SimNode::Phase::kGone) node.inbox.push_back(outgoing);
    }
  }

  void Hear(NodeId id, SimNode& node, const OpenStore& open) {
    node.outbox.push_back([this, id, open] {
      return state_->OnOpened(id, open.attempt,
                              {"host" + std::to_string(id), static_cast<uint16_t>(open.attempt)});
    });
  }
  void Hear(NodeId id, SimNode& node, const ReachStore& reach) {
    node.attempt = reach.attempt;
    node.next = reach.membership;
    const bool reaches = Pick(0, 49) > 0;
    node.outbox.push_back([this, id, reach, reaches] {
      return reaches ? state_->OnReached(id, reach.attempt)
                     : state_->OnUnreached(id, reach.attempt, "no route", now_);
    });
  }
  void Hear(NodeId id, SimNode& node, const AskToGoOn& ask) {
    if (ask.attempt != node.attempt) return;
    EXPECT_FALSE(ask.loss.empty());
    const bool goes_on = node.phase == SimNode::Phase::kRunning && Pick(0, 4) > 0;
    node.outbox.push_back(
        [this, id, ask, goes_on] { return state_->OnAnswer(id, ask.attempt, goes_on, now_); });
  }
  void Hear(NodeId id, SimNode& node, const StartRound& start) {
    if (start.attempt != node.attempt) return;
    ASSERT_EQ(node.phase, SimNode::Phase::kJoining);
    node.phase = SimNode::Phase::kRunning;
    CheckWorld(id, node);
    node.membership = node.next;
  }
  void Hear(NodeId, SimNode& node, const ReportEnd& end) {
    if (end.attempt != node.attempt) return;
    ASSERT_TRUE(node.phase == SimNode::Phase::kRunning || node.phase == SimNode::Phase::kLeaving);
    CheckEnd(end);
    if (end.end.kind == Kind::kJobFailed) return Over(node, "failed: " + end.end.message);
    node.phase = SimNode::Phase::kStopping;
  }
  void Hear(NodeId, SimNode& node, const AllLeft& left) {
    ASSERT_EQ(left.attempt, node.attempt);
    ASSERT_EQ(node.phase, SimNode::Phase::kLeaving);
    Over(node, "well");
  }
  void Hear(NodeId id, SimNode& node, const RefuseJoin& refuse) {
    ASSERT_EQ(node.phase, SimNode::Phase::kJoining);
    Over(node, "");
    EXPECT_FALSE(refuse.error.what.empty());
    node.outbox.push_back([this, id] { return state_->OnGone(id, "it was refused", now_); });
  }
  void Hear(NodeId, SimNode&, const ReportProgress& progress) {
    EXPECT_FALSE(progress.line.empty());
  }

  void Over(SimNode& node, const std::string& result) {
    node.phase = SimNode::Phase::kGone;
    node.result = result;
  }

  void CheckWorld(NodeId id, const SimNode& node) {
    const Membership& now = *node.next;
    auto& world = worlds_[node.attempt];
    if (now.stands_in) {
      EXPECT_GT(now.node_rank, 0) << "another node than that of the store";
      world.erase(now.node_rank);  // it may have been lost before it heard of the start
      ++num_stand_ins;
    }
    EXPECT_TRUE(world.emplace(now.node_rank, now).second) << "two nodes with one rank";
    const Membership& first = world.begin()->second;
    EXPECT_EQ(now.nnodes, first.nnodes);
    EXPECT_EQ(now.round, first.round);
    EXPECT_EQ(now.world_size, first.world_size);
    EXPECT_EQ(now.restart_count, first.restart_count);
    EXPECT_EQ(now.master_addr, first.master_addr);
    EXPECT_EQ(now.master_port, node.attempt) << "a store that was opened for another round";
    EXPECT_GE(now.nnodes, rules_.min_nodes);
    EXPECT_LE(now.nnodes, rules_.max_nodes);
    EXPECT_LT(now.node_rank, now.nnodes);
    EXPECT_LE(now.restart_count, rules_.max_restarts);
    if (now.node_rank == 0) {
      EXPECT_EQ(now.master_addr, "host" + std::to_string(id));
    }
    if (!node.membership) return;
    EXPECT_GT(now.round, node.membership->round);
    if (now.round == node.membership->round + 1 && node.membership->node_rank < now.nnodes) {
      EXPECT_EQ(now.node_rank, node.membership->node_rank) << "ranks are stable";
    }
  }

  void CheckEnd(const ReportEnd& told) {
    const auto [found, is_new] = ends_.emplace(told.attempt, told.end);
    EXPECT_EQ(found->second.kind, told.end.kind);
    EXPECT_EQ(found->second.message, told.end.message);
    EXPECT_EQ(found->second.node_rank, told.end.node_rank);
  }

  void CheckResults() {
    std::set<std::string> results;
    for (const auto& [id, node] : nodes_) {
      if (!node.result.empty()) results.insert(node.result);
    }
    EXPECT_LE(results.size(), 1) << *results.begin();
    for (const auto& [attempt, world] : worlds_) {
      int restarts = 0;
      for (const auto& [ended, end] : ends_) {
        restarts += ended < attempt && end.kind == Kind::kRestart ? 1 : 0;
      }
      // Ends that nobody lived to hear are not known here.
      EXPECT_GE(world.begin()->second.restart_count, restarts);
    }
  }

  std::mt19937 random_;
  JobRules rules_;
  std::optional<RoundState> state_;
  RoundState::Time now_ = RoundState::Time() + std::chrono::hours(1);
  std::map<NodeId, SimNode> nodes_;
  std::map<NodeId, NodeInfo> info_;
  NodeId last_id_ = 0;
  std::map<int64_t, std::map<int, Membership>> worlds_;  // by attempt, then rank
  std::map<int64_t, RoundEnd> ends_;
};

TEST(RoundStateRandom, IsConsistentUnderAnySchedule) {
  int stand_ins = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(seed);
    simulation.Run();
    stand_ins += simulation.num_stand_ins;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(stand_ins, 20);
}

}  // namespace
}  // namespace ddprun::rendezvous
