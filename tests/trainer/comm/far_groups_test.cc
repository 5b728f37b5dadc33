// HostProcessGroup with ranks on several nodes: threads, with a memory file for each node.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "base/failure.h"
#include "tests/trainer/comm/rank_threads.h"
#include "tests/trainer/comm/transports.h"
#include "trainer/comm/host_process_group.h"

namespace ddprun::trainer {
namespace {

using Tensors = std::vector<at::Tensor>;

void OnNodes(const std::vector<int>& node_of_rank,
             const std::function<void(HostProcessGroup& group, int rank)>& body) {
  const int size = static_cast<int>(node_of_rank.size());
  std::vector<UniqueFd> memory;
  const auto transports = ConnectedTransports(node_of_rank.size());
  std::vector<int> peers;
  for (int rank = 0; rank < size; ++rank) {
    memory.push_back(ValueOrThrow(SharedRegion::CreateFile()));
    peers.push_back(rank);
  }
  RunRanks(size, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    const auto group =
        HostProcessGroup::Create(memory[static_cast<size_t>(node_of_rank[r])],
                                 {.rank = rank,
                                  .size = size,
                                  .timeout = std::chrono::seconds(60),
                                  .node_of_rank = node_of_rank,
                                  .wire = {.transport = transports[r], .peers = peers}});
    body(*group, rank);
  });
}

at::Tensor Sum(HostProcessGroup& group, double value, int64_t count) {
  Tensors tensors = {at::full({count}, value)};
  group.allreduce(tensors, {})->wait();
  return tensors[0];
}

TEST(FarGroups, SumWithinGroupsOfTheirOwn) {
  OnNodes({0, 0, 1, 1}, [](HostProcessGroup& group, int rank) {
    // Along and across the nodes, as a mesh of tensor and data parallel ranks.
    const int first = rank / 2 * 2;
    const auto near = group.NewGroup({first, first + 1});
    const auto far = group.NewGroup({rank % 2, rank % 2 + 2});
    for (const int64_t count : {1, 100'000}) {
      EXPECT_TRUE(at::equal(Sum(*near, rank, count), at::full({count}, 2.0 * first + 1)));
      EXPECT_TRUE(at::equal(Sum(*far, rank, count), at::full({count}, rank % 2 * 2.0 + 2)));
      EXPECT_TRUE(at::equal(Sum(group, rank, count), at::full({count}, 6.0)));
    }
    const auto some = group.NewGroup(rank == 0 ? std::vector<int>{} : std::vector<int>{3, 1, 2});
    ASSERT_EQ(some == nullptr, rank == 0);
    if (some == nullptr) return;
    EXPECT_EQ(some->getRank(), rank % 3);
    EXPECT_TRUE(at::equal(Sum(*some, rank, 70'000), at::full({70'000}, 6.0)));
  });
}

TEST(FarGroups, SendLargeMessagesWithoutWaitingForReceivers) {
  OnNodes({0, 1}, [](HostProcessGroup& group, int rank) {
    for (const int64_t count : {0, 1, 3'000'000}) {
      Tensors sent = {at::full({count}, rank + 1.0)};
      Tensors received = {at::zeros({count})};
      // Both send first; with sends that wait this would never end.
      const auto sending = group.send(sent, 1 - rank, 3);
      sending->wait();
      sent[0].zero_();
      group.recv(received, 1 - rank, 3)->wait();
      EXPECT_TRUE(at::equal(received[0], at::full({count}, 2.0 - rank)));
    }
  });
}

TEST(FarGroups, ReceiveFromAnyRankInTheOrderOfEachSender) {
  OnNodes({0, 0, 1}, [](HostProcessGroup& group, int rank) {
    constexpr int kEach = 20;
    if (rank != 0) {
      for (int i = 0; i < kEach; ++i) {
        Tensors sent = {at::full({1000}, rank * 100.0 + i)};
        group.send(sent, 0, 9)->wait();
      }
    } else {
      std::vector<int> next(3, 0);
      for (int i = 0; i < 2 * kEach; ++i) {
        Tensors received = {at::zeros({1000})};
        const auto work = group.recvAnysource(received, 9);
        work->wait();
        const int from = work->sourceRank();
        ASSERT_TRUE(from == 1 || from == 2);
        EXPECT_EQ(received[0][999].item<double>(),
                  from * 100.0 + next[static_cast<size_t>(from)]++);
      }
    }
    group.barrier({})->wait();
  });
}

// The first receive has the first message, whether that has been seen when the second is begun or
// not; it is long on its way.
class FarReceives : public testing::TestWithParam<int> {};

TEST_P(FarReceives, ByNameComeBehindAnEarlierOneFromAnyRank) {
  OnNodes({0, 1}, [wait_ms = GetParam()](HostProcessGroup& group, int rank) {
    constexpr int64_t kCount = 8'000'000;
    if (rank == 0) {
      for (const double value : {1.0, 2.0}) {
        Tensors sent = {at::full({kCount}, value)};
        group.send(sent, 1, 3)->wait();
      }
    } else {
      Tensors first = {at::zeros({kCount})};
      Tensors second = {at::zeros({kCount})};
      const auto any = group.recvAnysource(first, 3);
      for (int i = 0; i < wait_ms && !any->isCompleted(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      const auto named = group.recv(second, 0, 3);
      any->wait();
      named->wait();
      EXPECT_TRUE(at::equal(first[0], at::full({kCount}, 1.0)));
      EXPECT_TRUE(at::equal(second[0], at::full({kCount}, 2.0)));
    }
    group.barrier({})->wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Milliseconds, FarReceives, testing::Values(0, 3, 20, 50, 100));

TEST(FarGroups, ReduceScatterAlsoFromMemoryThatIsShared) {
  OnNodes({0, 0, 1, 1, 2, 2}, [](HostProcessGroup& group, int rank) {
    constexpr int64_t kCount = 100'003;
    const int size = group.getSize();
    at::Tensor input =
        rank == 4 ? at::zeros({kCount * size}) : group.allocateTensor(kCount * size, at::kFloat);
    input.copy_(at::arange(kCount * size).remainder(1000).add(rank));
    const at::Tensor before = input.clone();
    for (int round = 0; round < 3; ++round) {
      at::Tensor output = at::zeros({kCount});
      group._reduce_scatter_base(output, input, {})->wait();
      const at::Tensor own = before.narrow(0, rank * kCount, kCount) - rank;
      EXPECT_TRUE(at::equal(output, own * 6 + 15));
      EXPECT_TRUE(at::equal(input, before)) << "an input was written to";
    }
  });
}

TEST(FarGroups, RefuseMessagesOfAnotherSize) {
  OnNodes({0, 1}, [](HostProcessGroup& group, int rank) {
    for (const int64_t sent_count : {5, 50}) {
      Tensors tensors = {at::zeros({rank == 0 ? sent_count : 10})};
      if (rank == 0) {
        group.send(tensors, 1, 1)->wait();
        continue;
      }
      try {
        group.recv(tensors, 0, 1)->wait();
        ADD_FAILURE() << sent_count << " elements were accepted for 10";
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.error().title, "MISMATCHED MESSAGE");
      }
    }
    group.barrier({})->wait();
  });
}

TEST(FarGroups, RefuseAlgorithmsForOneNode) {
  OnNodes({0, 1}, [](HostProcessGroup& group, int) {
    group.SetAllReduceAlgorithm(AllReduceAlgorithm::kRing);
    try {
      Sum(group, 1, 10);
      ADD_FAILURE() << "a ring of memory was formed across nodes";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().page, "algorithm-for-one-node");
    }
  });
}

}  // namespace
}  // namespace ddprun::trainer
