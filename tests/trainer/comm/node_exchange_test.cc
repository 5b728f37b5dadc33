#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/trainer/comm/rank_threads.h"
#include "trainer/comm/node_group.h"

namespace ddprun::trainer {
namespace {

constexpr int64_t kRoot = 1;

struct Case {
  int size;
  size_t count;  // elements of one part
};

int64_t Element(int from, int to, size_t index) {
  return from * 1'000'003 + to * 7919 + static_cast<int64_t>(index % 1013);
}

// One part for each rank, as `from` sends them.
std::vector<int64_t> Parts(int from, int size, size_t count) {
  std::vector<int64_t> parts;
  for (int to = 0; to < size; ++to) {
    for (size_t i = 0; i < count; ++i) parts.push_back(Element(from, to, i));
  }
  return parts;
}

class NodeExchange : public testing::TestWithParam<Case> {
 protected:
  int size() const { return GetParam().size; }
  size_t count() const { return GetParam().count; }
  size_t bytes() const { return count() * sizeof(int64_t); }

  // Every rank calls body(group, rank, its parts) three times: once with the parts of all ranks in
  // private memory, once with all in shared memory, once mixed.
  void ForEveryPlacement(
      const std::function<void(NodeGroup&, int rank, const int64_t* parts)>& body) {
    auto file = SharedRegion::CreateFile();
    ASSERT_TRUE(file.has_value());
    auto region = SharedRegion::Map(*file, size());
    ASSERT_TRUE(region.has_value());
    RunRanks(size(), [&](int rank) {
      NodeGroup group(**region, {.rank = rank});
      const std::vector<int64_t> own = Parts(rank, size(), count());
      const size_t total = own.size() * sizeof(int64_t);
      std::byte* shared = (*region)->Allocate(rank, total);
      if (total > 0) std::memcpy(shared, own.data(), total);
      const auto* direct = reinterpret_cast<const int64_t*>(shared);
      body(group, rank, own.data());
      body(group, rank, direct);
      body(group, rank, rank % 2 == 0 ? own.data() : direct);
      EXPECT_TRUE(group.Barrier(Soon()).ok());
      const bool kept = total == 0 || std::memcmp(shared, own.data(), total) == 0;
      EXPECT_TRUE(kept) << "an input was written to";
    });
  }

  static Clock::time_point Soon() { return Clock::now() + std::chrono::seconds(60); }
  static void Expect(const Status& status) { EXPECT_TRUE(status.ok()) << Render(status.error()); }
};

TEST_P(NodeExchange, AllToAllGivesEveryRankItsPartOfEachInput) {
  ForEveryPlacement([&](NodeGroup& group, int rank, const int64_t* parts) {
    std::vector<int64_t> output(count() * static_cast<size_t>(size()), -1);
    Expect(group.AllToAll(parts, output.data(), bytes(), Soon()));
    std::vector<int64_t> expected;
    for (int from = 0; from < size(); ++from) {
      for (size_t i = 0; i < count(); ++i) expected.push_back(Element(from, rank, i));
    }
    EXPECT_EQ(output, expected);
  });
}

TEST_P(NodeExchange, ReduceScatterGivesEveryRankTheSumOfItsParts) {
  ForEveryPlacement([&](NodeGroup& group, int rank, const int64_t* parts) {
    std::vector<int64_t> output(count(), -1);
    Expect(group.ReduceScatter(parts, output.data(), count(), DataType::kInt64, Reduction::kSum,
                               Soon()));
    std::vector<int64_t> expected(count(), 0);
    for (int from = 0; from < size(); ++from) {
      for (size_t i = 0; i < count(); ++i) expected[i] += Element(from, rank, i);
    }
    EXPECT_EQ(output, expected);
  });
}

TEST_P(NodeExchange, ScatterSharesOutTheRootsParts) {
  const int root = static_cast<int>(kRoot) % size();
  ForEveryPlacement([&](NodeGroup& group, int rank, const int64_t* parts) {
    std::vector<int64_t> output(count(), -1);
    Expect(group.Scatter(rank == root ? parts : nullptr, output.data(), bytes(), root, Soon()));
    std::vector<int64_t> expected;
    for (size_t i = 0; i < count(); ++i) expected.push_back(Element(root, rank, i));
    EXPECT_EQ(output, expected);
  });
}

TEST_P(NodeExchange, GatherCollectsInRankOrderAtTheRoot) {
  const int root = static_cast<int>(kRoot) % size();
  ForEveryPlacement([&](NodeGroup& group, int rank, const int64_t* parts) {
    std::vector<int64_t> output(rank == root ? count() * static_cast<size_t>(size()) : 0, -1);
    Expect(group.Gather(parts, rank == root ? output.data() : nullptr, bytes(), root, Soon()));
    std::vector<int64_t> expected;
    for (int from = 0; from < size() && rank == root; ++from) {
      for (size_t i = 0; i < count(); ++i) expected.push_back(Element(from, 0, i));
    }
    EXPECT_EQ(output, expected);
  });
}

TEST_P(NodeExchange, ReduceChangesTheRootsDataOnly) {
  const int root = static_cast<int>(kRoot) % size();
  ForEveryPlacement([&](NodeGroup& group, int rank, const int64_t* parts) {
    std::vector<int64_t> data(parts, parts + count());
    const std::vector<int64_t> before = data;
    Expect(group.Reduce(data.data(), count(), DataType::kInt64, Reduction::kMax, root, Soon()));
    if (rank != root) {
      EXPECT_EQ(data, before);
      return;
    }
    for (size_t i = 0; i < count(); ++i) ASSERT_EQ(data[i], Element(size() - 1, 0, i));
  });
}

TEST_P(NodeExchange, AllToAllTakesPartsOfDifferentSizes) {
  // Rank f sends (f + 2 t) % 3 halves of a part to rank t, so some send nothing.
  const auto elements = [&](int from, int to) {
    return static_cast<size_t>((from + 2 * to) % 3) * count() / 2;
  };
  ForEveryPlacement([&](NodeGroup& group, int rank, const int64_t*) {
    std::vector<int64_t> input;
    std::vector<int64_t> expected;
    std::vector<size_t> send;
    std::vector<size_t> receive;
    for (int peer = 0; peer < size(); ++peer) {
      const size_t sent = elements(rank, peer);
      const size_t received = elements(peer, rank);
      for (size_t i = 0; i < sent; ++i) input.push_back(Element(rank, peer, i));
      for (size_t i = 0; i < received; ++i) expected.push_back(Element(peer, rank, i));
      send.push_back(sent * sizeof(int64_t));
      receive.push_back(received * sizeof(int64_t));
    }
    std::vector<int64_t> output(expected.size(), -1);
    Expect(group.AllToAllV(input.data(), send, output.data(), receive, Soon()));
    EXPECT_EQ(output, expected);
  });
}

TEST(NodeExchangeErrors, AllToAllNamesTheSenderOfAnotherSize) {
  auto file = SharedRegion::CreateFile();
  ASSERT_TRUE(file.has_value());
  auto region = SharedRegion::Map(*file, 2);
  ASSERT_TRUE(region.has_value());
  RunRanks(2, [&](int rank) {
    NodeGroup group(**region, {.rank = rank});
    const std::vector<int64_t> input(4);
    std::vector<int64_t> output(8);
    const std::vector<size_t> send = {8, 16};
    const size_t right = rank == 0 ? 8 : 16;
    const std::vector<size_t> receive = {right, right + 8};
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    const Status status = group.AllToAllV(input.data(), send, output.data(), receive, deadline);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().title, "MISMATCHED COLLECTIVES");
    EXPECT_NE(status.error().what.find("bytes from rank 1, which sends"), std::string::npos)
        << status.error().what;
  });
}

// Slots, one piece, several pieces, sizes that no cache line divides.
INSTANTIATE_TEST_SUITE_P(Sizes,
                         NodeExchange,
                         testing::Values(Case{1, 5},
                                         Case{2, 0},
                                         Case{2, 1},
                                         Case{2, 1000},
                                         Case{2, 1023},
                                         Case{2, 65536},
                                         Case{2, 131072},
                                         Case{3, 700},
                                         Case{3, 50021},
                                         Case{4, 200'003},
                                         Case{8, 257}),
                         [](const testing::TestParamInfo<Case>& tested) {
                           return std::to_string(tested.param.size) + "Ranks" +
                                  std::to_string(tested.param.count) + "Elements";
                         });

}  // namespace
}  // namespace ddprun::trainer
