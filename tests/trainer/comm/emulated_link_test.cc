#include "trainer/comm/emulated_link.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "base/flight_recorder.h"
#include "tests/trainer/comm/rank_threads.h"
#include "trainer/comm/node_group.h"

namespace ddprun::trainer {
namespace {

using std::chrono::milliseconds;

constexpr int kRanks = 4;
constexpr double kGigabit = 0.08;  // ten megabytes in a second

// Returns the time in tensors of one megabyte, which travels in 0.1 s.
double Tensors(CollectiveKind kind, AllReduceAlgorithm algorithm = AllReduceAlgorithm::kDirect) {
  OperationHeader header = {};
  header.kind = static_cast<uint32_t>(kind);
  header.algorithm = static_cast<uint32_t>(algorithm);
  header.bytes = 1'000'000;
  return SecondsOnLink(header, kRanks, kGigabit) / 0.1;
}

TEST(EmulatedLink, TakesTheTimeOfTheBusiestLink) {
  const auto all_reduce = [](AllReduceAlgorithm algorithm) {
    return Tensors(CollectiveKind::kAllReduce, algorithm);
  };
  EXPECT_DOUBLE_EQ(all_reduce(AllReduceAlgorithm::kDirect), 1.5);
  EXPECT_DOUBLE_EQ(all_reduce(AllReduceAlgorithm::kRing), 1.5);
  EXPECT_DOUBLE_EQ(all_reduce(AllReduceAlgorithm::kReduceBroadcast), 6);
  EXPECT_DOUBLE_EQ(all_reduce(AllReduceAlgorithm::kAllToAll), 3);
  EXPECT_DOUBLE_EQ(Tensors(CollectiveKind::kBroadcast), 1);
  EXPECT_DOUBLE_EQ(Tensors(CollectiveKind::kReduce), 1);
  EXPECT_DOUBLE_EQ(Tensors(CollectiveKind::kAllGather), 3);
  EXPECT_DOUBLE_EQ(Tensors(CollectiveKind::kGather), 3);
  EXPECT_DOUBLE_EQ(Tensors(CollectiveKind::kReduceScatter), 0.75);
  EXPECT_DOUBLE_EQ(Tensors(CollectiveKind::kScatter), 0.75);
  EXPECT_DOUBLE_EQ(Tensors(CollectiveKind::kAllToAll), 0.75);
  EXPECT_DOUBLE_EQ(Tensors(CollectiveKind::kBarrier), 0);
}

TEST(EmulatedLink, WaitsUntilItIsCancelled) {
  std::atomic<bool> cancelled = false;
  std::jthread cancels([&] {
    std::this_thread::sleep_for(milliseconds(20));
    cancelled = true;
  });
  WaitOnLink(1e6, cancelled);
  EXPECT_TRUE(cancelled);
}

// Each collective of a group takes its time, and gives the same result.
TEST(EmulatedLink, SlowsAGroup) {
  constexpr size_t kCount = 25'000;  // of float: 0.1 MB, which travel in 10 ms
  const auto memory = SharedRegion::CreateFile();
  RunRanks(kRanks, [&](int rank) {
    const auto region = std::move(*SharedRegion::Map(*memory, kRanks));
    NodeGroup group(*region, {.rank = rank,
                              .spin = std::chrono::nanoseconds(0),
                              .on_begin = [](const OperationHeader& header,
                                             const std::atomic<bool>& cancelled) {
                                WaitOnLink(SecondsOnLink(header, kRanks, kGigabit), cancelled);
                              }});
    const auto least = [&](double tensors, const std::function<Status(Clock::time_point)>& call) {
      const Clock::time_point begin = Clock::now();
      const Status status = call(begin + std::chrono::seconds(60));
      ASSERT_TRUE(status.ok()) << status.error().what;
      EXPECT_GE(Clock::now() - begin, milliseconds(10) * tensors);
    };
    std::vector<float> sum(kCount, static_cast<float>(rank + 1));
    least(1.5, [&](auto end) {
      return group.AllReduce(sum.data(), kCount, DataType::kFloat32, Reduction::kSum, end);
    });
    EXPECT_EQ(sum, std::vector<float>(kCount, 10));
    std::vector<float> all(kCount * kRanks);
    least(3, [&](auto end) {
      return group.AllGather(sum.data(), all.data(), kCount * sizeof(float), end);
    });
    EXPECT_EQ(all, std::vector<float>(kCount * kRanks, 10));
    least(3, [&](auto end) {  // parts of 0.1 MB
      return group.ReduceScatter(all.data(), sum.data(), kCount, DataType::kFloat32,
                                 Reduction::kSum, end);
    });
    EXPECT_EQ(sum, std::vector<float>(kCount, 40));
    least(3, [&](auto end) {
      return group.AllToAll(all.data(), std::vector<float>(all.size()).data(),
                            kCount * sizeof(float), end);
    });
    least(1, [&](auto end) { return group.Broadcast(sum.data(), kCount * sizeof(float), 1, end); });
  });
}

}  // namespace
}  // namespace ddprun::trainer
