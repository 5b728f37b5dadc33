#include "rendezvous/store/wait_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace ddprun::rendezvous {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class WaitTableTest : public testing::Test {
 protected:
  std::vector<ConnectionId> Arrived(const std::string& key) {
    std::vector<ConnectionId> woken;
    table_.Arrived(key, woken);
    return woken;
  }
  std::vector<ConnectionId> ArrivedForOne(const std::string& key) {
    std::vector<ConnectionId> woken;
    table_.ArrivedForOne(key, woken);
    return woken;
  }

  WaitTable table_;
};

TEST_F(WaitTableTest, WakesThoseWhoLackNothingMoreInTheOrderTheyCame) {
  table_.Park(2, {"a"});
  table_.Park(1, {"a", "b"});
  table_.Park(3, {"a"});
  EXPECT_THAT(Arrived("a"), ElementsAre(2, 3));
  EXPECT_THAT(table_.Missing(1), ElementsAre("b"));
  EXPECT_THAT(Arrived("a"), IsEmpty());
  EXPECT_THAT(Arrived("b"), ElementsAre(1));
  EXPECT_EQ(table_.num_parked(), 0);
}

TEST_F(WaitTableTest, CountsAKeyThatIsNamedTwiceOnce) {
  table_.Park(1, {"a", "a"});
  EXPECT_THAT(table_.Missing(1), ElementsAre("a"));
  EXPECT_THAT(Arrived("a"), ElementsAre(1));
}

TEST_F(WaitTableTest, LeavesAnElementToTheFirstWhoNeedsNothingElse) {
  table_.Park(1, {"queue", "other"});
  table_.Park(2, {"queue"});
  table_.Park(3, {"queue"});
  EXPECT_THAT(ArrivedForOne("queue"), ElementsAre(2));
  EXPECT_THAT(ArrivedForOne("queue"), ElementsAre(3));
  EXPECT_THAT(Arrived("other"), ElementsAre(1));
}

TEST_F(WaitTableTest, KeepsBarriersAndKeysOfOneNameApart) {
  table_.ParkAtBarrier(1, "k");
  table_.Park(2, {"k"});
  EXPECT_TRUE(table_.at_barrier(1));
  EXPECT_FALSE(table_.at_barrier(2));
  EXPECT_THAT(Arrived("k"), ElementsAre(2));
  std::vector<ConnectionId> woken;
  table_.OpenBarrier("k", woken);
  EXPECT_THAT(woken, ElementsAre(1));
}

TEST_F(WaitTableTest, ForgetsEverythingAboutThoseWhoLeave) {
  table_.Park(1, {"a", "b"});
  table_.Park(2, {"b"});
  table_.Remove(1);
  table_.Remove(7);
  EXPECT_THAT(table_.Missing(1), IsEmpty());
  EXPECT_EQ(table_.num_keys(), 1);
  EXPECT_THAT(Arrived("b"), ElementsAre(2));
  EXPECT_EQ(table_.num_keys(), 0);
  EXPECT_EQ(table_.cost_bytes(), 0);
}

// Against a table that keeps it all in sets.
TEST_F(WaitTableTest, AgreesWithASimpleTableInARandomHistory) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::map<ConnectionId, std::set<std::string>> simple;
  for (int step = 0; step < 20'000; ++step) {
    const ConnectionId connection = random() % 8;
    const std::string key(1, static_cast<char>('a' + random() % 6));
    if (random() % 3 == 0) {
      std::vector<ConnectionId> woken = Arrived(key);
      std::vector<ConnectionId> expected;
      for (auto& [waiter, keys] : simple) {
        if (keys.erase(key) == 1 && keys.empty()) expected.push_back(waiter);
      }
      for (const ConnectionId waiter : expected) simple.erase(waiter);
      ASSERT_THAT(woken, testing::UnorderedElementsAreArray(expected));
    } else if (simple.contains(connection)) {
      ASSERT_THAT(table_.Missing(connection), testing::ElementsAreArray(simple[connection]));
      table_.Remove(connection);
      simple.erase(connection);
    } else {
      std::vector<std::string> keys = {key, key};
      for (unsigned i = random() % 4; i > 0; --i) keys.emplace_back(1, 'a' + random() % 6);
      simple[connection] = {keys.begin(), keys.end()};
      table_.Park(connection, keys);
    }
    ASSERT_EQ(table_.num_parked(), simple.size());
    ASSERT_EQ(table_.cost_bytes() == 0, simple.empty());
  }
}

}  // namespace
}  // namespace ddprun::rendezvous
