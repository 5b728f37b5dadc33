#include "launcher/agent/local_rank_argument.h"

#include <gmock/gmock.h>

namespace ddprun::launcher {
namespace {

TEST(SubstituteLocalRank, ReplacesBothFormsAndKeepsOtherDollars) {
  EXPECT_EQ(SubstituteLocalRank("a${local_rank}b$local_rank.c", 12), "a12b12.c");
  EXPECT_EQ(SubstituteLocalRank("$local_ranks $HOME ${HOME} $", 1), "$local_ranks $HOME ${HOME} $");
  EXPECT_EQ(SubstituteLocalRank("$${local_rank} $$local_rank", 1), "${local_rank} $local_rank");
  EXPECT_EQ(SubstituteLocalRank("kill $$", 1), "kill $$");
  EXPECT_EQ(SubstituteLocalRank("", 1), "");
}

}  // namespace
}  // namespace ddprun::launcher
