#include "trainer/comm/node_group.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/trainer/comm/rank_threads.h"

namespace ddprun::trainer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::unique_ptr<SharedRegion> NewRegion(int size) {
  auto file = SharedRegion::CreateFile();
  EXPECT_TRUE(file.has_value());
  auto region = SharedRegion::Map(*file, size);
  EXPECT_TRUE(region.has_value());
  return std::move(region).value();
}

Clock::time_point Soon() {
  return Clock::now() + seconds(30);
}

void Expect(const Status& status) {
  EXPECT_TRUE(status.ok()) << Render(status.error());
}

// Small whole numbers: sums are exact, so equality is the right test.
std::vector<float> Values(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 7 + static_cast<size_t>(rank) * 13) % 1000);
  }
  return values;
}

std::vector<float> SumOverRanks(int size, size_t count) {
  std::vector<float> sum(count, 0.0F);
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<float> values = Values(rank, count);
    for (size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

struct Case {
  int size;
  size_t count;
};

class NodeGroupSizes : public testing::TestWithParam<Case> {
 protected:
  // Ranks below `direct` keep their data in shared memory, the others outside.
  void ExpectAllReduce(int direct) {
    const auto [size, count] = GetParam();
    const auto region = NewRegion(size);
    const std::vector<float> expected = SumOverRanks(size, count);
    RunRanks(size, [&, size = size, count = count](int rank) {
      NodeGroup group(*region, {.rank = rank});
      const size_t bytes = count * sizeof(float);
      std::vector<float> outside(count);
      float* data = outside.data();
      if (rank < direct) data = reinterpret_cast<float*>(region->Allocate(rank, bytes));
      for (int round = 0; round < 3; ++round) {
        const std::vector<float> values = Values(rank, count);
        std::memcpy(data, values.data(), bytes);
        Expect(group.AllReduce(data, count, DataType::kFloat32, Reduction::kSum, Soon()));
        ASSERT_EQ(std::memcmp(data, expected.data(), bytes), 0) << "rank " << rank;
      }
      Expect(group.Barrier(Soon()));
      EXPECT_EQ(group.size(), size);
    });
  }
};

TEST_P(NodeGroupSizes, AllReducesInPlaceInSharedMemory) {
  ExpectAllReduce(GetParam().size);
}
TEST_P(NodeGroupSizes, AllReducesStagedTensors) {
  ExpectAllReduce(0);
}
TEST_P(NodeGroupSizes, AllReducesAMixOfBoth) {
  ExpectAllReduce(1);
}

TEST_P(NodeGroupSizes, BroadcastsFromEveryRoot) {
  const auto [size, count] = GetParam();
  const auto region = NewRegion(size);
  RunRanks(size, [&, size = size, count = count](int rank) {
    NodeGroup group(*region, {.rank = rank});
    const size_t bytes = count * sizeof(float);
    for (int root = 0; root < size; ++root) {
      std::vector<float> data = Values(rank, count);
      Expect(group.Broadcast(data.data(), bytes, root, Soon()));
      ASSERT_EQ(data, Values(root, count));
    }
  });
}

TEST_P(NodeGroupSizes, GathersInRankOrderAlsoInPlace) {
  const auto [size, count] = GetParam();
  const auto region = NewRegion(size);
  RunRanks(size, [&, size = size, count = count](int rank) {
    NodeGroup group(*region, {.rank = rank});
    const size_t bytes = count * sizeof(float);
    std::vector<float> expected;
    for (int r = 0; r < size; ++r) {
      const std::vector<float> values = Values(r, count);
      expected.insert(expected.end(), values.begin(), values.end());
    }
    const std::vector<float> input = Values(rank, count);
    std::vector<float> output(count * static_cast<size_t>(size));
    Expect(group.AllGather(input.data(), output.data(), bytes, Soon()));
    ASSERT_EQ(output, expected);
    std::fill(output.begin(), output.end(), -1.0F);
    float* own = output.data() + static_cast<size_t>(rank) * count;
    std::memcpy(own, input.data(), bytes);
    Expect(group.AllGather(own, output.data(), bytes, Soon()));
    ASSERT_EQ(output, expected);
  });
}

TEST(SharedRegion, LeavesAnotherFileUnderTheNumberOfItsOwnAsItWas) {
  std::string path = testing::TempDir() + "not_memory_XXXXXX";
  const UniqueFd file(mkstemp(path.data()));
  ASSERT_EQ(write(file.get(), "kept", 4), 4);
  const auto region = SharedRegion::Map(file, 2);
  ASSERT_FALSE(region.has_value());
  EXPECT_NE(region.error().hint.find("unset DDPRUN_NODE_MEMORY_FD"), std::string::npos);
  char text[8] = {};
  EXPECT_EQ(pread(file.get(), text, sizeof text, 0), 4);
  EXPECT_STREQ(text, "kept");
  unlink(path.c_str());
}

TEST(SharedRegion, GivesTheMemoryOfAGenerationBackWhenAllRanksHaveLeftIt) {
  constexpr size_t kBytes = size_t{16} << 20;
  const UniqueFd file = std::move(*SharedRegion::CreateFile());
  const auto used = [&] {
    struct stat status {};
    EXPECT_EQ(fstat(file.get(), &status), 0);
    return static_cast<size_t>(status.st_blocks) * 512;
  };
  auto next = std::move(*SharedRegion::Map(file, 2, 1));
  std::byte* const others = next->Allocate(0, kBytes);
  std::memset(others, 1, kBytes);
  for (int round = 0; round < 2; ++round) {
    auto first = std::move(*SharedRegion::Map(file, 2));
    auto second = std::move(*SharedRegion::Map(file, 2));
    std::byte* const data = first->Allocate(0, kBytes);
    EXPECT_EQ(data[kBytes - 1], std::byte{0});
    std::memset(data, 2, kBytes);
    EXPECT_GE(used(), 2 * kBytes);
    first.reset();
    EXPECT_GE(used(), 2 * kBytes) << "the other rank may still read it";
    second.reset();
    EXPECT_LT(used(), 2 * kBytes);
  }
  EXPECT_EQ(others[kBytes - 1], std::byte{1});
}

TEST(NodeGroup, StagesNoMoreAtATimeThanItIsTold) {
  constexpr size_t kStaging = size_t{64} << 10;
  constexpr size_t kCount = 50'001;
  const auto region = NewRegion(2);
  RunRanks(2, [&](int rank) {
    NodeGroup group(*region, {.rank = rank, .staging_bytes = kStaging});
    std::vector<float> data = Values(rank, kCount);
    Expect(group.AllReduce(data.data(), kCount, DataType::kFloat32, Reduction::kSum, Soon()));
    EXPECT_EQ(data, SumOverRanks(2, kCount));
    // The next block of the heap lies behind the staging memory.
    const std::byte* const behind = region->Allocate(rank, kStaging);
    data = Values(rank, kCount);
    Expect(group.Broadcast(data.data(), kCount * sizeof(float), 1, Soon()));
    EXPECT_EQ(data, Values(1, kCount));
    std::vector<float> part(kCount / 2);
    Expect(group.ReduceScatter(data.data(), part.data(), part.size(), DataType::kFloat32,
                               Reduction::kMax, Soon()));
    EXPECT_EQ(std::memcmp(part.data(), data.data() + static_cast<size_t>(rank) * part.size(),
                          part.size() * sizeof(float)),
              0);
    const std::vector<std::byte> zeros(kStaging);
    EXPECT_EQ(std::memcmp(behind, zeros.data(), kStaging), 0) << "written beyond the staging";
    Expect(group.Barrier(Soon()));
  });
}

// 4096 floats are the last that fit a slot; 300001 take two staged pieces, the last one odd.
INSTANTIATE_TEST_SUITE_P(Sizes,
                         NodeGroupSizes,
                         testing::Values(Case{1, 5},
                                         Case{2, 1},
                                         Case{2, 4096},
                                         Case{2, 4097},
                                         Case{2, 300001},
                                         Case{3, 10000},
                                         Case{4, 300001},
                                         Case{8, 5000}),
                         [](const auto& test) {
                           return std::to_string(test.param.size) + "Ranks" +
                                  std::to_string(test.param.count) + "Floats";
                         });

TEST(NodeGroup, GivesTheSameBitsOnAllRanksAndInEveryRun) {
  constexpr int kSize = 3;
  constexpr size_t kCount = 50000;
  std::vector<std::vector<float>> results;
  for (int run = 0; run < 2; ++run) {
    const auto region = NewRegion(kSize);
    std::vector<std::vector<float>> of_rank(kSize);
    RunRanks(kSize, [&](int rank) {
      NodeGroup group(*region, {.rank = rank, .spin = std::chrono::microseconds(run * 10)});
      std::vector<float> data(kCount);
      for (size_t i = 0; i < kCount; ++i) {
        data[i] = 1.0F / static_cast<float>(i + 1 + static_cast<size_t>(rank));
      }
      Expect(group.AllReduce(data.data(), kCount, DataType::kFloat32, Reduction::kAvg, Soon()));
      of_rank[static_cast<size_t>(rank)] = std::move(data);
    });
    for (auto& data : of_rank) results.push_back(std::move(data));
  }
  for (const auto& data : results) EXPECT_EQ(data, results[0]);
}

TEST(NodeGroup, SurvivesThousandsOfSmallOperationsWithoutMixingThem) {
  constexpr int kSize = 4;
  const auto region = NewRegion(kSize);
  RunRanks(kSize, [&](int rank) {
    NodeGroup group(*region, {.rank = rank, .spin = std::chrono::nanoseconds(0)});
    for (int64_t i = 0; i < 2000; ++i) {
      int64_t value = i * 10 + rank;
      Expect(group.AllReduce(&value, 1, DataType::kInt64, Reduction::kSum, Soon()));
      ASSERT_EQ(value, i * 40 + 6);
    }
  });
}

TEST(NodeGroup, NamesBothOperationsWhenRanksDisagree) {
  const auto region = NewRegion(2);
  RunRanks(2, [&](int rank) {
    NodeGroup group(*region, {.rank = rank});
    std::vector<float> data(10);
    const Status status =
        rank == 0 ? group.AllReduce(data.data(), 10, DataType::kFloat32, Reduction::kSum, Soon())
                  : group.Broadcast(data.data(), 12, 0, Soon());
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().title, "MISMATCHED COLLECTIVES");
    EXPECT_NE(status.error().what.find("all_reduce number 1 (sum of 10 float32)"),
              std::string::npos);
    EXPECT_NE(status.error().what.find("broadcast number 1 (12 bytes from rank 0)"),
              std::string::npos);
  });
}

TEST(NodeGroup, NamesTheRanksThatDidNotCome) {
  const auto region = NewRegion(3);
  RunRanks(3, [&](int rank) {
    if (rank == 1) return;
    NodeGroup group(*region, {.rank = rank});
    // The late one of the two that come must find the other there.
    Status status = group.Barrier(Clock::now() + milliseconds(300));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kDeadlineExceeded);
    EXPECT_NE(status.error().what.find("barrier number 1 in time: 1."), std::string::npos)
        << status.error().what;
  });
}

TEST(NodeGroup, CancelEndsAWaitFromAnotherThread) {
  const auto region = NewRegion(2);
  NodeGroup group(*region, {.rank = 0});
  std::jthread waiter([&] {
    const Status status = group.Barrier(Soon());
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().title, "COLLECTIVE CANCELLED");
  });
  group.Cancel();
}

// Real processes, each with its own mapping; one is killed in the middle.
TEST(NodeGroup, ReportsAKilledProcessToTheOthers) {
  auto file = SharedRegion::CreateFile();
  ASSERT_TRUE(file.has_value());
  constexpr int kSize = 3;
  std::vector<pid_t> pids;
  for (int rank = 0; rank < kSize; ++rank) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      auto region = SharedRegion::Map(*file, kSize);
      NodeGroup group(**region, {.rank = rank, .spin = std::chrono::nanoseconds(0)});
      std::vector<float> data(100000, 1.0F);
      for (int i = 0; i < 5; ++i) {
        if (!group.AllReduce(data.data(), data.size(), DataType::kFloat32, Reduction::kAvg, Soon())
                 .ok()) {
          _exit(2);
        }
      }
      if (rank == 2) raise(SIGKILL);
      const Status status = group.Barrier(Clock::now() + milliseconds(500));
      const bool named = !status.ok() && status.error().what.find(": 2.") != std::string::npos;
      _exit(named ? 0 : 3);
    }
    pids.push_back(pid);
  }
  for (int rank = 0; rank < kSize; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(pids[static_cast<size_t>(rank)], &status, 0),
              pids[static_cast<size_t>(rank)]);
    if (rank == 2) {
      EXPECT_TRUE(WIFSIGNALED(status));
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
    }
  }
}

// Rank 1 fails two operations while rank 2 has not yet read what it needs of the one before.
TEST(NodeMeeting, AfterALossARankWritesNothingThatOthersMayStillRead) {
  const auto region = NewRegion(3);
  std::vector<std::unique_ptr<NodeMeeting>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<NodeMeeting>(*region, NodeMeeting::Options{.rank = rank}));
  }
  const auto meet = [&](int rank, char value) {
    NodeMeeting& meeting = *ranks[static_cast<size_t>(rank)];
    const NodeOperation operation = meeting.Begin(CollectiveKind::kAllReduce, &value, 1, Soon());
    *meeting.Slot(rank) = std::byte(value);
    return meeting.MeetAndCompare(operation);
  };
  RunRanks(3, [&](int rank) { Expect(meet(rank, 'a')); });
  region->control(0).given_up = true;
  for (int operation = 2; operation <= 3; ++operation) {
    const Status lost = meet(1, 'z');
    ASSERT_FALSE(lost.ok());
    EXPECT_EQ(lost.error().code, Code::kRankLost);
  }
  EXPECT_EQ(*ranks[2]->Slot(1), std::byte('a'));
  EXPECT_EQ(ranks[2]->header(1).sequence, 1U);
}

TEST(SharedRegion, ReusesFreedMemoryAndHandsItOutZeroed) {
  const auto region = NewRegion(2);
  std::byte* first = region->Allocate(1, 10000);
  std::byte* second = region->Allocate(1, 5000);
  ASSERT_NE(first, nullptr);
  EXPECT_GE(second, first + 10000);
  EXPECT_EQ(region->HeapOffset(1, second + 100, 10), second + 100 - region->heap(1));
  EXPECT_EQ(region->HeapOffset(0, second, 10), -1);
  std::memset(first, 0xff, 10000);
  region->Free(1, first);
  std::byte* again = region->Allocate(1, 8000);
  EXPECT_EQ(again, first);
  EXPECT_EQ(static_cast<int>(again[7999]), 0);
  EXPECT_EQ(region->Allocate(0, size_t{1} << 40), nullptr);
}

}  // namespace
}  // namespace ddprun::trainer
