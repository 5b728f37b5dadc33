#include "launcher/hang/dead_links.h"

#include <gtest/gtest.h>

namespace ddprun::launcher {
namespace {

using rendezvous::SocketEntry;

TEST(DeadLinks, AreThoseWhoseDataWereSentAgainForSeconds) {
  const std::vector<SocketEntry> sockets = {
      {"10.0.0.3:1", "10.0.0.1:1", 11, 500, 7},
      {"10.0.0.3:2", "10.0.0.2:1", 12, 500, 3},  // one lost packet may take as many
      {"10.0.0.3:3", "10.0.0.2:2", 13, 90, 4},
      {"10.0.0.3:4", "10.0.0.2:3", 14, 90, 9},  // of another program
      {"10.0.0.3:5", "10.0.0.2:4", 15, 0, 0},
  };
  const SocketHolders holders = {{11, {5, 105}}, {12, {5, 105}}, {13, {4, 104}}, {15, {4, 104}}};
  const std::vector<DeadLink> links = SelectDeadLinks(sockets, holders);
  ASSERT_EQ(links.size(), 2);
  EXPECT_EQ(links[0].rank, 4);
  EXPECT_EQ(Describe(links[1]),
            "10.0.0.1:1 does not acknowledge what rank 5 sends from 10.0.0.3:1 (500 bytes, sent "
            "again 7 times)");
}

}  // namespace
}  // namespace ddprun::launcher
