#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/elastic/round_actions.h"

namespace ddprun::rendezvous {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SeatNodes, SeatsInTheOrderOfArrivalWithoutWishes) {
  EXPECT_THAT(SeatNodes(std::vector<Candidate>{{5}, {2}, {9}}, 3), ElementsAre(2, 5, 9));
}

TEST(SeatNodes, OrdersByWishThenByArrival) {
  const std::vector<Candidate> nodes = {{1, {}, 7}, {2, {}, {}}, {3, {}, 5}, {4, {}, {}}};
  EXPECT_THAT(SeatNodes(nodes, 4), ElementsAre(3, 1, 2, 4));
}

TEST(SeatNodes, GivesEachItsWishWhereThatIsFree) {
  const std::vector<Candidate> nodes = {{1, {}, 2}, {2, {}, 1}, {3, {}, {}}};
  EXPECT_THAT(SeatNodes(nodes, 3), ElementsAre(3, 2, 1));
}

TEST(SeatNodes, TwoWithTheSameWishBothGetASeat) {
  const std::vector<Candidate> nodes = {{1, {}, 0}, {2, {}, 0}, {3, {}, 0}};
  EXPECT_THAT(SeatNodes(nodes, 3), ElementsAre(1, 2, 3));
}

TEST(SeatNodes, KeepsRanksAndPutsAReplacementIntoTheHole) {
  const std::vector<Candidate> nodes = {{1, 0, {}}, {3, 2, {}}, {7, {}, {}}};
  EXPECT_THAT(SeatNodes(nodes, 3), ElementsAre(1, 7, 3));
}

TEST(SeatNodes, AWishDoesNotDriveAwayWhoSitsThere) {
  const std::vector<Candidate> nodes = {{1, 0, 1}, {2, 1, 0}, {7, {}, 0}};
  EXPECT_THAT(SeatNodes(nodes, 3), ElementsAre(1, 2, 7));
}

TEST(SeatNodes, ASmallerRoundHasNoHoles) {
  const std::vector<Candidate> nodes = {{2, 1, {}}, {3, 2, {}}, {4, 3, {}}};
  EXPECT_THAT(SeatNodes(nodes, 4), ElementsAre(4, 2, 3));
}

TEST(SeatNodes, WhoWasThereGoesBeforeSparesAndSparesByArrival) {
  const std::vector<Candidate> nodes = {{1, {}, 0}, {2, {}, {}}, {3, 0, {}}, {4, 1, {}}};
  EXPECT_THAT(SeatNodes(nodes, 2), ElementsAre(3, 4));
  EXPECT_THAT(SeatNodes(nodes, 3), ElementsAre(3, 4, 1));
}

TEST(SeatNodes, ANonsensicalWishIsNoWish) {
  const std::vector<Candidate> nodes = {{1, {}, -4}, {2, {}, 1 << 30}};
  EXPECT_THAT(SeatNodes(nodes, 2), ElementsAre(1, 2));
  EXPECT_THAT(SeatNodes({}, 2), IsEmpty());
}

}  // namespace
}  // namespace ddprun::rendezvous
