// One list of what c10d expects of a store, over ours and LibTorch's, each with both servers.
#include "trainer/comm/c10d_store.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/control_collectives/StoreCollectives.hpp>

#include "tests/rendezvous/loop_thread.h"
#include "tests/trainer/comm/rank_threads.h"
#include "trainer/comm/connect_nodes.h"

namespace ddprun::trainer {
namespace {

using Bytes = std::vector<uint8_t>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsSupersetOf;

constexpr milliseconds kLong = std::chrono::seconds(60);
constexpr milliseconds kShort{20};

struct Kind {
  std::string name;
  bool own_client = false;
  bool own_server = false;
};

Bytes Of(const std::string& text) {
  return {text.begin(), text.end()};
}

class C10dStoreTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam().own_server) {
      served_ = std::make_unique<rendezvous::ServedStore>();
      port_ = served_->endpoint().port;
      return;
    }
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    torchs_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    port_ = torchs_->getPort();
  }

  StorePtr Connect() const {
    if (GetParam().own_client) {
      return MakeC10dStore(*rendezvous::TcpStore::Connect({"127.0.0.1", port_}, rendezvous::Soon()),
                           kLong);
    }
    c10d::TCPStoreOptions options;
    options.port = port_;
    options.waitWorkers = false;
    options.timeout = kLong;
    return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }

  std::unique_ptr<rendezvous::ServedStore> served_;
  c10::intrusive_ptr<c10d::TCPStore> torchs_;
  uint16_t port_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Clients,
                         C10dStoreTest,
                         testing::Values(Kind{"OursAtOurs", true, true},
                                         Kind{"OursAtTorchs", true, false},
                                         Kind{"TorchsAtOurs", false, true},
                                         Kind{"TorchsAtTorchs", false, false}),
                         [](const auto& test) { return test.param.name; });

TEST_P(C10dStoreTest, KeepsAnyBytes) {
  const StorePtr store = Connect();
  Bytes all(1 << 20);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint8_t>(i * 7);
  const std::string key("k\0\xff/", 4);
  store->set(key, all);
  EXPECT_TRUE(store->get(key) == all);
  store->set("empty", Bytes());
  EXPECT_TRUE(store->get("empty").empty());
  store->set("text", "value");
  EXPECT_EQ(store->get_to_str("text"), "value");
}

TEST_P(C10dStoreTest, CountsInDecimalText) {
  const StorePtr store = Connect();
  EXPECT_EQ(store->add("n", 5), 5);
  EXPECT_EQ(store->add("n", -7), -2);
  EXPECT_EQ(store->get_to_str("n"), "-2");
  store->set("n", "40");
  EXPECT_EQ(store->add("n", 2), 42);
}

TEST_P(C10dStoreTest, ChecksDeletesAndListsKeys) {
  const StorePtr store = Connect();
  const int64_t before = store->getNumKeys();  // torch's server counts its own
  EXPECT_FALSE(store->check({"a"}));
  store->set("a", "1");
  store->set("b", "2");
  EXPECT_TRUE(store->check({"a", "b"}));
  EXPECT_FALSE(store->check({"a", "c"}));
  EXPECT_EQ(store->getNumKeys(), before + 2);
  EXPECT_THAT(store->listKeys(), IsSupersetOf({"a", "b"}));
  EXPECT_TRUE(store->deleteKey("a"));
  EXPECT_FALSE(store->deleteKey("a"));
  EXPECT_FALSE(store->check({"a"}));
}

TEST_P(C10dStoreTest, ComparesAndSets) {
  const StorePtr store = Connect();
  EXPECT_EQ(store->compareSet("k", "other", "new"), "other");  // absent: as it came
  EXPECT_FALSE(store->check({"k"}));
  EXPECT_EQ(store->compareSet("k", "", "first"), "first");
  EXPECT_EQ(store->compareSet("k", "other", "second"), "first");
  EXPECT_EQ(store->compareSet("k", "", "second"), "first");
  EXPECT_EQ(store->compareSet("k", "first", "second"), "second");
  EXPECT_EQ(store->get_to_str("k"), "second");
  EXPECT_EQ(store->compareSet("k", Of("second"), Bytes({0, 255})), Bytes({0, 255}));
}

TEST_P(C10dStoreTest, AppendsAndTakesSeveralAtOnce) {
  const StorePtr store = Connect();
  ASSERT_TRUE(store->hasExtendedApi());
  store->append("a", Of("on"));
  store->append("a", Of("e"));
  EXPECT_EQ(store->get_to_str("a"), "one");
  store->multiSet({"b", "c"}, {Of("two"), {0, 1}});
  EXPECT_THAT(store->multiGet({"c", "a", "b"}), ElementsAre(Bytes({0, 1}), Of("one"), Of("two")));
  EXPECT_THROW(store->multiSet({"b", "c"}, {Of("two")}), c10::Error);
  EXPECT_EQ(store->get_to_str("a"), "one");  // the connection is as good as before
}

TEST_P(C10dStoreTest, QueuesKeepTheirOrder) {
  const StorePtr store = Connect();
  EXPECT_EQ(store->queueLen("q"), 0);
  EXPECT_THROW((void)store->queuePop("q", false), c10::DistQueueEmptyError);
  store->queuePush("q", Of("first"));
  store->queuePush("q", Of("second"));
  EXPECT_EQ(store->queueLen("q"), 2);
  EXPECT_EQ(store->queuePop("q", false), Of("first"));
  EXPECT_EQ(store->queuePop("q", true), Of("second"));
  store->setTimeout(kShort);
  EXPECT_THROW((void)store->queuePop("q", true), c10::DistStoreError);
  store->setTimeout(kLong);
  std::jthread pushing([other = store->clone()] { other->queuePush("q", Of("third")); });
  EXPECT_EQ(store->queuePop("q", true), Of("third"));
}

TEST_P(C10dStoreTest, WaitsThatRunOutOfTimeLeaveTheConnectionAsItWas) {
  const StorePtr store = Connect();
  store->set("there", "1");
  EXPECT_THROW(store->wait({"there", "never"}, kShort), c10::DistStoreError);
  EXPECT_THROW(store->wait({"never"}, c10d::Store::kNoTimeout), c10::DistStoreError);
  EXPECT_NO_THROW(store->wait({"there"}, kLong));
  EXPECT_EQ(store->getTimeout(), kLong);
  store->setTimeout(kShort);
  EXPECT_EQ(store->getTimeout(), kShort);
  EXPECT_THROW(store->wait({"never"}), c10::DistStoreError);
  EXPECT_THROW((void)store->get("never"), c10::DistStoreError);
  EXPECT_THROW((void)store->multiGet({"there", "never"}), c10::DistStoreError);
  // A timeout is of waits only.
  store->setTimeout(milliseconds(0));
  for (int64_t i = 1; i <= 100; ++i) EXPECT_EQ(store->add("n", 1), i);
}

TEST_P(C10dStoreTest, NamesTheKeysThatDidNotCome) {
  const StorePtr store = Connect();
  try {
    store->wait({"key of nobody"}, kShort);
    FAIL();
  } catch (const c10::DistStoreError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("key of nobody"));
  }
}

TEST_P(C10dStoreTest, WaitsEndWhenAnotherThreadSets) {
  const StorePtr store = Connect();
  const StorePtr other = store->clone();
  for (int round = 0; round < 20; ++round) {
    const std::string key = "late" + std::to_string(round);
    std::jthread setting([key, other] {
      other->set(key + ".a", "1");
      other->set(key + ".b", "2");
    });
    if (round % 2 == 0) {
      store->wait({key + ".a", key + ".b"}, kLong);
    } else {
      EXPECT_EQ(store->get_to_str(key + ".b"), "2");
    }
    EXPECT_TRUE(store->check({key + ".a"}));
  }
}

TEST_P(C10dStoreTest, IsSharedByThreads) {
  const StorePtr store = Connect();
  RunRanks(4, [&](int) {
    for (int i = 0; i < 50; ++i) store->add("n", 1);
  });
  EXPECT_EQ(store->add("n", 0), 200);
}

TEST_P(C10dStoreTest, ClonesWaitWithoutHoldingUpEachOther) {
  const StorePtr store = Connect();
  // Each waits for the one before: through one connection the first to come would block them all.
  RunRanks(4, [&](int rank) {
    const StorePtr own = store->clone();
    if (rank > 0) own->wait({"rank" + std::to_string(rank - 1)}, kLong);
    own->set("rank" + std::to_string(rank), "done");
  });
  store->wait({"rank3"}, kLong);
}

TEST_P(C10dStoreTest, CarriesAPrefixStore) {
  const StorePtr store = Connect();
  const auto outer = c10::make_intrusive<c10d::PrefixStore>("default_pg", store);
  const auto inner = c10::make_intrusive<c10d::PrefixStore>("0", outer);
  inner->set("k", "v");
  EXPECT_EQ(store->get_to_str("default_pg/0/k"), "v");
  EXPECT_THAT(inner->multiGet({"k"}), ElementsAre(Of("v")));
  EXPECT_EQ(inner->add("n", 2), 2);
  inner->setTimeout(kShort);
  EXPECT_EQ(store->getTimeout(), kShort);
  EXPECT_THROW((void)inner->get("never"), c10::DistStoreError);
  inner->setTimeout(kLong);  // a copy connects within it; torch's may wait for a name server
  const StorePtr copy = inner->clone();
  EXPECT_EQ(copy->get_to_str("k"), "v");
}

// LibTorch's own collectives work over the store.
TEST_P(C10dStoreTest, CarriesStoreCollectives) {
  constexpr int kRanks = 4;
  RunRanks(kRanks, [&](int rank) {
    const auto own = c10::make_intrusive<c10d::PrefixStore>("job", Connect());
    c10d::StoreCollectives group(own, rank, kRanks);
    EXPECT_EQ(group.allSum("sum", rank + 1, kLong), 10);
    const std::vector<Bytes> all = group.allGather("all", {static_cast<uint8_t>(rank), 0}, kLong);
    for (int other = 0; other < kRanks; ++other) {
      EXPECT_EQ(all.at(static_cast<size_t>(other)), Bytes({static_cast<uint8_t>(other), 0}));
    }
    if (rank == 0) {
      group.broadcastSend("word", Of("go"), kLong);
      const std::vector<Bytes> parts = {Of("0"), Of("1"), Of("2"), Of("3")};
      EXPECT_EQ(group.scatterSend("parts", parts, kLong), Of("0"));
      EXPECT_THAT(group.gatherRecv("ranks", Of("0"), kLong),
                  ElementsAre(Of("0"), Of("1"), Of("2"), Of("3")));
    } else {
      EXPECT_EQ(group.broadcastRecv("word", kLong), Of("go"));
      EXPECT_EQ(group.scatterRecv("parts", kLong), Of(std::to_string(rank)));
      group.gatherSend("ranks", Of(std::to_string(rank)), kLong);
    }
    group.barrier("end", kLong, true);
  });
}

// Torch's server cannot be stopped before its client.
class C10dStoreAtOursTest : public C10dStoreTest {};

INSTANTIATE_TEST_SUITE_P(Clients,
                         C10dStoreAtOursTest,
                         testing::Values(Kind{"Ours", true, true}, Kind{"Torchs", false, true}),
                         [](const auto& test) { return test.param.name; });

TEST_P(C10dStoreAtOursTest, SaysThatTheServerIsGone) {
  const StorePtr store = Connect();
  served_->Stop();
  EXPECT_THROW((void)store->add("n", 1), c10::DistNetworkError);
  EXPECT_THROW((void)store->add("n", 1), c10::DistNetworkError);
}

// Two take, one element comes at a time: nobody gets an empty queue for an answer.
TEST(C10dStore, WaitsForTheNextElementWhenAnotherTakesTheFirst) {
  rendezvous::ServedStore served;
  const auto connect = [&] {
    return MakeC10dStore(*rendezvous::TcpStore::Connect(served.endpoint(), rendezvous::Soon()),
                         kLong);
  };
  constexpr size_t kElements = 200;
  std::vector<std::set<std::string>> taken(2);
  RunRanks(3, [&](int rank) {
    const StorePtr store = connect();
    for (size_t i = 0; i < (rank == 2 ? kElements : kElements / 2); ++i) {
      if (rank == 2) {
        store->queuePush("q", Of(std::to_string(i)));
      } else {
        const Bytes element = store->queuePop("q", true);
        taken[static_cast<size_t>(rank)].emplace(element.begin(), element.end());
      }
    }
  });
  taken[0].merge(taken[1]);
  EXPECT_EQ(taken[0].size(), kElements);
}

// Any process that reaches the store may write its keys.
TEST(NodeMemory, IsNoOtherFileThatTheStoreNames) {
  rendezvous::ServedStore served;
  const auto store = *rendezvous::TcpStore::Connect(served.endpoint(), rendezvous::Soon());
  std::string path = testing::TempDir() + "not_memory_XXXXXX";
  const UniqueFd file(mkstemp(path.data()));
  ASSERT_EQ(write(file.get(), "kept", 4), 4);
  ASSERT_TRUE(store->Set("ddprun/none/0/node_memory/0/0", path, rendezvous::Soon()).ok());
  const RankInfo second{.rank = 1, .world_size = 2, .local_rank = 1, .local_world_size = 2};
  const auto memory = NodeMemory(Environment(), second, 0, store.get(), kLong);
  ASSERT_FALSE(memory.has_value());
  EXPECT_THAT(memory.error().what, testing::HasSubstr(path));
  EXPECT_EQ(lseek(file.get(), 0, SEEK_END), 4);
  unlink(path.c_str());
}

}  // namespace
}  // namespace ddprun::trainer
