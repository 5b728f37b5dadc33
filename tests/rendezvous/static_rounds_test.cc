// Static jobs that restart again and again, with nodes that act as agents do, while node 0 answers
// late and single connections break.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/backends.h"
#include "tests/rendezvous/loop_thread.h"
#include "tests/rendezvous/slow_way.h"
#include "tests/rendezvous/unused_port.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::milliseconds;
using Kind = RoundEnd::Kind;

constexpr int kNodes = 3;
constexpr int kRestarts = 3;
// A hundredth of what a job has, and answers are as late as 30 s would be then.
constexpr milliseconds kReportTimeout{10};
constexpr int kLatestMs = 300;

class StaticJob {
 public:
  StaticJob(asio::io_context& io, unsigned seed, bool breaks)
      : io_(io), random_(seed), breaks_(breaks), breaking_(io) {
    for (int rank = 0; rank < kNodes; ++rank) {
      ways_.push_back(std::make_unique<SlowWay>(io, port_, [this] { return Lateness(); }));
      Start(rank);
    }
  }

  bool ended() const {
    return std::ranges::all_of(nodes_, [](const Node& node) { return node.code.has_value(); });
  }
  // Empty: all went as promised.
  std::string Fault() const {
    if (!fault_.empty()) return fault_;
    if (!ended()) return "the job does not end: " + said();
    for (const Node& node : nodes_) {
      const bool alike = (*node.code == 0) == (*nodes_[0].code == 0);
      if (!alike) return "some nodes fail, some do not: " + said();
    }
    return broken_ || *nodes_[0].code == 0 ? "" : "the job fails: " + said();
  }
  bool broken() const { return broken_; }

 private:
  struct Node {
    std::shared_ptr<Rendezvous> rendezvous;
    std::unique_ptr<asio::steady_timer> failing;
    std::optional<int> code;
    std::string why;
    int round = -1;
    bool asked = false;  // this node ended the round
    bool over = false;   // the job failed
  };

  milliseconds Lateness() { return milliseconds(random_() % 4 == 0 ? random_() % kLatestMs : 0); }

  std::string said() const {
    std::string text;
    for (const Node& node : nodes_) {
      const std::string code = node.code ? std::to_string(*node.code) : "none";
      text += "[round " + std::to_string(node.round) + ", code " + code + ", " + node.why + "]";
    }
    return text;
  }

  void Start(int rank) {
    RendezvousOptions options;
    options.rules.max_nodes = kNodes;
    options.rules.max_restarts = kRestarts;
    options.rules.join_timeout = std::chrono::seconds(15);
    options.node_rank = rank;
    options.report_timeout = kReportTimeout;
    const uint16_t way = ways_[static_cast<size_t>(rank)]->port();
    options.endpoint = {"127.0.0.1", rank == 0 ? port_ : way};
    Node& node = nodes_[static_cast<size_t>(rank)];
    node.failing = std::make_unique<asio::steady_timer>(io_);
    node.rendezvous = *kStaticBackend.make(io_, options);
    Join(node);
  }

  void Join(Node& node) {
    if (node.over || node.code) return;
    node.asked = false;
    node.rendezvous->Join([this, &node](Result<Membership> joined) {
      if (!joined.has_value()) return End(node, 1, joined.error().what);
      node.round = joined->round;
      if (joined->restart_count != joined->round) {
        fault_ = "restart " + std::to_string(joined->restart_count) + " in round " +
                 std::to_string(joined->round);
      }
      node.rendezvous->WatchRound([this, &node](const RoundEnd& end) { OnRoundEnd(node, end); });
      Work(node);
    });
  }

  void Work(Node& node) {
    if (node.round == kRestarts) {
      node.rendezvous->Leave([this, &node](const Status& left) {
        End(node, left.ok() ? 0 : 1, left.ok() ? "" : left.error().what);
      });
      return;
    }
    if (breaks_ && !broken_ && node.round == kRestarts - 2) {
      broken_ = true;
      breaking_.expires_after(milliseconds(random_() % 100));
      breaking_.async_wait([this](const asio::error_code& error) {
        if (!error) ways_[1 + random_() % (kNodes - 1)]->BreakOne(random_());
      });
    }
    node.failing->expires_after(milliseconds(random_() % 100));
    node.failing->async_wait([this, &node, round = node.round](const asio::error_code& error) {
      if (error || node.over || node.code || node.round != round) return;
      node.asked = true;
      node.rendezvous->EndRound({.kind = Kind::kRestart, .message = "a worker failed"},
                                [this, &node] {
                                  if (node.over) return End(node, 1, node.why);
                                  Join(node);
                                });
    });
  }

  void OnRoundEnd(Node& node, const RoundEnd& end) {
    if (node.code) return;
    if (end.kind == Kind::kJobFailed) {
      node.over = true;
      node.why = end.message;
      if (!node.asked) End(node, end.exit_code, end.message);
    } else if (!node.asked) {
      node.failing->cancel();
      asio::post(io_, [this, &node] { Join(node); });
    }
  }

  // Its process ends.
  void End(Node& node, int code, const std::string& why) {
    if (node.code) return;
    node.code = code;
    node.why = why;
    node.failing->cancel();
    asio::post(io_, [&node] { node.rendezvous.reset(); });
  }

  asio::io_context& io_;
  std::mt19937 random_;
  const bool breaks_;
  const uint16_t port_ = UnusedPort();
  std::vector<std::unique_ptr<SlowWay>> ways_;
  std::array<Node, kNodes> nodes_;
  asio::steady_timer breaking_;
  bool broken_ = false;
  std::string fault_;
};

// All at the same time, since they mostly wait.
void RunJobs(bool breaks) {
  constexpr unsigned kJobs = 16;
  asio::io_context io;
  std::vector<std::unique_ptr<StaticJob>> jobs;
  for (unsigned seed = 0; seed < kJobs; ++seed) {
    jobs.push_back(std::make_unique<StaticJob>(io, seed, breaks));
  }
  const Deadline deadline = DeadlineAfter(std::chrono::seconds(40));
  const auto all_ended = [&] {
    return std::ranges::all_of(jobs, [](const auto& job) { return job->ended(); });
  };
  while (!all_ended() && std::chrono::steady_clock::now() < deadline) {
    io.run_one_for(milliseconds(100));
  }
  io.poll();
  for (unsigned seed = 0; seed < kJobs; ++seed) {
    EXPECT_EQ(jobs[seed]->Fault(), "") << "seed " << seed;
    EXPECT_EQ(jobs[seed]->broken(), breaks);
  }
}

TEST(StaticRoundsTest, NodesStayInStepHoweverLateNode0Answers) {
  RunJobs(false);
}

TEST(StaticRoundsTest, ABrokenConnectionEndsTheJobAlikeOnAllNodesOrNotAtAll) {
  RunJobs(true);
}

}  // namespace
}  // namespace ddprun::rendezvous
