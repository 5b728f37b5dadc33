// The all-reduce algorithms for study: other ways to the same result.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/trainer/comm/rank_threads.h"
#include "trainer/comm/node_group.h"

namespace ddprun::trainer {
namespace {

using enum AllReduceAlgorithm;

Clock::time_point Soon() {
  return Clock::now() + std::chrono::seconds(60);
}

void Expect(const Status& status) {
  EXPECT_TRUE(status.ok()) << Render(status.error());
}

// Whole numbers in T: sums and averages over up to eight ranks are exact in any order.
template <typename T>
std::vector<T> Values(int rank, size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>((i * 7 + static_cast<size_t>(rank) * 13) % 1000 * 840);
  }
  return values;
}

struct Case {
  int size;
  size_t count;
};

class AlgorithmSizes : public testing::TestWithParam<std::tuple<AllReduceAlgorithm, Case>> {
 protected:
  AllReduceAlgorithm algorithm() const { return std::get<0>(GetParam()); }
  int size() const { return std::get<1>(GetParam()).size; }
  size_t count() const { return std::get<1>(GetParam()).count; }

  // The default's result and the algorithm's, on every rank, with the data of the ranks below
  // `direct` in shared memory.
  template <typename T>
  void Compare(DataType type, Reduction reduction, int direct) {
    auto file = SharedRegion::CreateFile();
    ASSERT_TRUE(file.has_value());
    auto region = SharedRegion::Map(*file, size());
    ASSERT_TRUE(region.has_value());
    RunRanks(size(), [&](int rank) {
      NodeGroup group(**region, {.rank = rank});
      std::vector<T> expected = Values<T>(rank, count());
      Expect(group.AllReduce(expected.data(), count(), type, reduction, Soon()));
      const std::vector<T> own = Values<T>(rank, count());
      std::vector<T> outside(count());
      T* data = outside.data();
      const size_t bytes = count() * sizeof(T);
      if (rank < direct) data = reinterpret_cast<T*>((*region)->Allocate(rank, bytes + 64));
      for (int round = 0; round < 2 && count() > 0; ++round) {
        if (bytes > 0) std::memcpy(data, own.data(), bytes);
        Expect(group.AllReduce(data, count(), type, reduction, Soon(), algorithm()));
        const bool equal = bytes == 0 || std::memcmp(data, expected.data(), bytes) == 0;
        ASSERT_TRUE(equal) << "rank " << rank;
      }
      if (count() == 0) {
        Expect(group.AllReduce(data, 0, type, reduction, Soon(), algorithm()));
      }
      Expect(group.Barrier(Soon()));
    });
  }
};

TEST_P(AlgorithmSizes, SumInSharedMemoryLikeTheDefault) {
  Compare<float>(DataType::kFloat32, Reduction::kSum, size());
}
TEST_P(AlgorithmSizes, SumStagedTensorsLikeTheDefault) {
  Compare<float>(DataType::kFloat32, Reduction::kSum, 0);
}
TEST_P(AlgorithmSizes, SumAMixOfBothLikeTheDefault) {
  Compare<int64_t>(DataType::kInt64, Reduction::kSum, 1);
}
TEST_P(AlgorithmSizes, AverageLikeTheDefault) {
  Compare<double>(DataType::kFloat64, Reduction::kAvg, size());
}
TEST_P(AlgorithmSizes, FindTheLargestLikeTheDefault) {
  Compare<int32_t>(DataType::kInt32, Reduction::kMax, size());
}

// Nothing, less than a line per rank, parts of unequal size, several staged pieces, odd ends.
INSTANTIATE_TEST_SUITE_P(Sizes,
                         AlgorithmSizes,
                         testing::Combine(testing::Values(kReduceBroadcast, kAllToAll, kRing),
                                          testing::Values(Case{1, 5},
                                                          Case{1, 5000},
                                                          Case{2, 0},
                                                          Case{2, 1},
                                                          Case{2, 4097},
                                                          Case{2, 300'001},
                                                          Case{3, 17},
                                                          Case{3, 10'007},
                                                          Case{3, 262'145},
                                                          Case{4, 300'001},
                                                          Case{5, 1021},
                                                          Case{6, 6},
                                                          Case{7, 50'021},
                                                          Case{8, 3},
                                                          Case{8, 70'003})),
                         [](const auto& test) {
                           const Case& c = std::get<1>(test.param);
                           return std::string(NameOf(std::get<0>(test.param))) + "_" +
                                  std::to_string(c.size) + "Ranks" + std::to_string(c.count) +
                                  "Elements";
                         });

// Each rank's result for fractions, whose sums depend on the order.
std::vector<std::vector<float>> Fractions(int size, AllReduceAlgorithm algorithm) {
  constexpr size_t kCount = 20'011;
  auto file = SharedRegion::CreateFile();
  auto region = SharedRegion::Map(*file, size);
  std::vector<std::vector<float>> results(static_cast<size_t>(size));
  RunRanks(size, [&](int rank) {
    NodeGroup group(**region, {.rank = rank});
    std::vector<float> data(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      data[i] = 1.0F / static_cast<float>(i + 1 + 3 * static_cast<size_t>(rank));
    }
    Expect(group.AllReduce(data.data(), kCount, DataType::kFloat32, Reduction::kAvg, Soon(),
                           algorithm));
    results[static_cast<size_t>(rank)] = std::move(data);
  });
  return results;
}

TEST(Algorithms, SumInRankOrderButForTheRing) {
  const auto expected = Fractions(5, kDirect);
  EXPECT_EQ(Fractions(5, kReduceBroadcast), expected);
  EXPECT_EQ(Fractions(5, kAllToAll), expected);
  const auto ring = Fractions(5, kRing);
  EXPECT_NE(ring, expected);
  EXPECT_EQ(Fractions(5, kRing), ring);
  for (const auto& result : ring) EXPECT_EQ(result, ring[0]);
  // Two numbers have the same sum in either order.
  EXPECT_EQ(Fractions(2, kRing), Fractions(2, kDirect));
}

TEST(Algorithms, ThatDifferBetweenRanksAreNamed) {
  auto file = SharedRegion::CreateFile();
  auto region = SharedRegion::Map(*file, 2);
  RunRanks(2, [&](int rank) {
    NodeGroup group(**region, {.rank = rank});
    std::vector<float> data(10'000);
    const Status status = group.AllReduce(data.data(), data.size(), DataType::kFloat32,
                                          Reduction::kSum, Soon(), rank == 0 ? kRing : kAllToAll);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().title, "MISMATCHED COLLECTIVES");
    EXPECT_NE(status.error().what.find("(sum of 10000 float32, ring)"), std::string::npos)
        << status.error().what;
    EXPECT_NE(status.error().what.find("(sum of 10000 float32, all_to_all)"), std::string::npos);
  });
}

}  // namespace
}  // namespace ddprun::trainer
