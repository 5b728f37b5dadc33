#include "rendezvous/rank_json.h"

#include <gtest/gtest.h>

namespace ddprun::rendezvous {
namespace {

TEST(RankJson, WritesAndReadsTorchElasticsJson) {
  const auto info = ParseRoleInfo(R"({"role": "default", "rank": 1, "local_world_size": 8})");
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->role, "default");
  EXPECT_EQ(info->node_rank, 1);
  EXPECT_EQ(info->local_world_size, 8);
  EXPECT_EQ(ParseRoleInfo(ToJson(*info))->local_world_size, 8);
  EXPECT_EQ(ParseAssignedRanks("[3, 5, 3, 5]"), (AssignedRanks{3, 5, 3, 5}));
  EXPECT_EQ(ParseAssignedRanks(ToJson(AssignedRanks{3, 5, 3, 5})), (AssignedRanks{3, 5, 3, 5}));
}

TEST(RankJson, RefusesWhatNoLauncherWrites) {
  for (const char* text : {"", "[1, 2", "{}", "[1,2,3]", "[1,2,3,\"4\"]", "[-1,2,3,4]", "[1e9]"}) {
    EXPECT_FALSE(ParseAssignedRanks(text).has_value()) << text;
  }
  for (const char* text : {"", "[]", "{\"role\":\"x\",\"rank\":0}",
                           "{\"role\":1,\"rank\":0,\"local_world_size\":1}"}) {
    EXPECT_FALSE(ParseRoleInfo(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace ddprun::rendezvous
