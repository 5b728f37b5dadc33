#include "launcher/agent/loss_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/store/store_server.h"
#include "tests/rendezvous/unused_port.h"

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;

class LossBoardTest : public ::testing::Test {
 protected:
  // One node's board, and what it has heard: "generation: rank of node".
  struct Node {
    std::vector<std::string> heard;
    std::vector<std::string> failures;
    std::unique_ptr<LossBoard> board;
  };

  std::unique_ptr<Node> Join(int round = 0, bool stands_in = false) {
    auto node = std::make_unique<Node>();
    const rendezvous::Membership membership{.round = round,
                                            .nnodes = 2,
                                            .master_addr = "127.0.0.1",
                                            .master_port = server_->port(),
                                            .stands_in = stands_in};
    node->board = std::make_unique<LossBoard>(
        io_, rendezvous::RendezvousOptions(), membership,
        LossBoard::Handlers{
            [heard = &node->heard](const Loss& loss) {
              heard->push_back(std::to_string(loss.generation) + ": " + std::to_string(loss.rank) +
                               " of " + std::to_string(loss.node_rank));
            },
            [failures = &node->failures](const std::string& why) { failures->push_back(why); }});
    return node;
  }

  asio::io_context io_;
  std::unique_ptr<rendezvous::StoreServer> server_ = *rendezvous::StoreServer::Listen(
      io_, asio::ip::address_v4::loopback(), rendezvous::UnusedPort());
};

TEST_F(LossBoardTest, AllNodesHearAllLossesInOneOrder) {
  const auto first = Join();
  const auto second = Join();
  const auto of_another_round = Join(/*round=*/1);
  for (int i = 0; i < 10; ++i) {
    first->board->Announce({.node_rank = 0, .local_rank = i, .rank = i});
    second->board->Announce({.node_rank = 1, .local_rank = i, .rank = 10 + i});
  }
  while (first->heard.size() < 20 || second->heard.size() < 20) io_.run_one();
  EXPECT_EQ(first->heard, second->heard);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(first->heard[i].starts_with(std::to_string(i + 1) + ": ")) << first->heard[i];
  }
  EXPECT_THAT(of_another_round->heard, ElementsAre());
}

TEST_F(LossBoardTest, WhoComesLateHearsAllOfIt) {
  const auto first = Join();
  first->board->Announce({.node_rank = 0, .local_rank = 1, .rank = 1});
  while (first->heard.empty()) io_.run_one();
  const auto second = Join();
  while (second->heard.empty()) io_.run_one();
  EXPECT_THAT(second->heard, ElementsAre("1: 1 of 0"));
}

// The losses before are those of workers that it replaces, or that were replaced before it came.
TEST_F(LossBoardTest, StandInHearsItsOwnLossesAndWhatFollows) {
  const auto first = Join();
  first->board->Announce({.node_rank = 0, .local_rank = 1, .rank = 1});
  while (first->heard.empty()) io_.run_one();
  const auto second = Join(/*round=*/0, /*stands_in=*/true);
  for (int i = 0; i < 100; ++i) io_.poll();
  EXPECT_THAT(second->heard, ElementsAre());
  for (const int rank : {2, 3}) {
    second->board->Announce({.node_rank = 1, .local_rank = rank - 2, .rank = rank});
  }
  while (second->heard.size() < 2) io_.run_one();
  first->board->Announce({.node_rank = 0, .local_rank = 0, .rank = 0});
  while (second->heard.size() < 3 || first->heard.size() < 4) io_.run_one();
  EXPECT_THAT(second->heard, ElementsAre("2: 2 of 1", "3: 3 of 1", "4: 0 of 0"));
  EXPECT_THAT(first->heard, ElementsAre("1: 1 of 0", "2: 2 of 1", "3: 3 of 1", "4: 0 of 0"));
}

TEST_F(LossBoardTest, SaysOnceThatTheStoreIsGone) {
  const auto node = Join();
  node->board->Announce({.node_rank = 0, .local_rank = 1, .rank = 1});
  while (node->heard.empty()) io_.run_one();
  server_.reset();
  while (node->failures.empty()) io_.run_one();
  EXPECT_TRUE(node->board->failed());
  node->board->Announce({.node_rank = 0, .local_rank = 2, .rank = 2});
  io_.poll();
  EXPECT_EQ(node->failures.size(), 1U);
}

}  // namespace
}  // namespace ddprun::launcher
