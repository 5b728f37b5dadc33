#include "base/mix_seeds.h"

#include <gtest/gtest.h>

#include <set>

namespace ddprun {
namespace {

TEST(MixSeeds, GivesEveryPlaceAnother) {
  std::set<uint64_t> seeds;
  size_t count = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (uint64_t rank = 0; rank < 8; ++rank) {
      for (uint64_t step = 0; step < 64; ++step, ++count)
        seeds.insert(MixSeeds({seed, rank, step}));
    }
  }
  EXPECT_EQ(seeds.size(), count);
}

TEST(MixSeeds, ChangesAboutHalfTheBits) {
  for (uint64_t i = 0; i < 64; ++i) {
    const int changed = __builtin_popcountll(MixSeeds({42, i}) ^ MixSeeds({42, i + 1}));
    EXPECT_GT(changed, 12);
    EXPECT_LT(changed, 52);
  }
}

}  // namespace
}  // namespace ddprun
