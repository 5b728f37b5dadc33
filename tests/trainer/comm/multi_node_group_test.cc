// Ranks as threads, on nodes that are memory files of their own; between them TCP or UCX over
// loopback.
#include "trainer/comm/multi_node_group.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "tests/base/sanitized.h"
#include "tests/trainer/comm/rank_threads.h"
#include "tests/trainer/comm/transports.h"
#include "trainer/comm/multi_node_slices.h"
#include "trainer/comm/node_group.h"

namespace ddprun::trainer {
namespace {

using Placement = std::vector<int>;  // node of each rank

Clock::time_point Soon() {
  return Clock::now() + std::chrono::seconds(60);
}

// The nodes' memory and the ranks' addresses: what a launcher and a store do for processes.
class Nodes {
 public:
  explicit Nodes(const Placement& node_of)
      : node_of_(node_of), transports_(ConnectedTransports(node_of.size())) {
    for (size_t node = 0; node < node_of.size(); ++node) {
      memory_.push_back(std::move(*SharedRegion::CreateFile()));
    }
  }

  // Runs body(group, rank) for every rank, whose losses `losses_of` watches.
  void Run(
      const std::function<void(Collectives& group, int rank)>& body,
      const std::function<LossWatch(int rank)>& losses_of = [](int) { return LossWatch(); }) {
    const int size = static_cast<int>(node_of_.size());
    RunRanks(size, [&](int rank) {
      const NodePlacement placement(rank, node_of_);
      const UniqueFd& memory = memory_[static_cast<size_t>(placement.node())];
      const int local_size = static_cast<int>(placement.Members(placement.node()).size());
      const auto region = std::move(*SharedRegion::Map(memory, local_size));
      GroupWire wire{.transport = transports_[static_cast<size_t>(rank)], .peers = {}};
      for (int peer = 0; peer < size; ++peer) wire.peers.push_back(peer);
      MultiNodeGroup group(*region, placement, wire,
                           {.rank = placement.LocalOf(rank),
                            .spin = std::chrono::nanoseconds(0),
                            .losses = losses_of(rank),
                            .names = placement.MemberNames(placement.node())});
      body(group, rank);
    });
  }

 private:
  const Placement node_of_;
  std::vector<UniqueFd> memory_;
  std::vector<std::shared_ptr<Transport>> transports_;
};

void RunOnOneNode(int size, const std::function<void(Collectives& group, int rank)>& body) {
  const auto memory = SharedRegion::CreateFile();
  RunRanks(size, [&](int rank) {
    const auto region = std::move(*SharedRegion::Map(*memory, size));
    NodeGroup group(*region, {.rank = rank, .spin = std::chrono::nanoseconds(0)});
    body(group, rank);
  });
}

// Values whose sum depends on the order in which they are added.
template <typename T>
std::vector<T> Values(size_t count, int rank) {
  std::vector<T> values(count);
  uint32_t state = static_cast<uint32_t>(rank) * 7919 + 17;
  for (T& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<T>(static_cast<double>(state >> 8) / 65536.0 - 100.0);
  }
  return values;
}

std::vector<std::byte> BytesFor(DataType type, size_t count, int rank) {
  std::vector<std::byte> bytes(count * SizeOf(type));
  const auto fill = [&](const auto& values) {
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  };
  if (type == DataType::kFloat32) fill(Values<float>(count, rank));
  if (type == DataType::kFloat64) fill(Values<double>(count, rank));
  if (type == DataType::kInt32) fill(Values<int32_t>(count, rank));
  if (type == DataType::kInt64) fill(Values<int64_t>(count, rank));
  // As bits: the upper half of a float is a bfloat16; halves stay small numbers.
  if (type == DataType::kFloat16 || type == DataType::kBFloat16) {
    const std::vector<float> values = Values<float>(count, rank);
    std::vector<uint16_t> halves(count);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
      halves[i] = static_cast<uint16_t>(type == DataType::kBFloat16 ? bits >> 16
                                                                    : 0x3000 + (bits >> 8 & 0xfff));
    }
    fill(halves);
  }
  if (type == DataType::kUInt8) {
    const std::vector<int32_t> values = Values<int32_t>(count, rank);
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(values[i] & 0xff);
  }
  return bytes;
}

// Every rank's result of the same reductions.
using Results = std::vector<std::vector<std::vector<std::byte>>>;

constexpr size_t kMostOfARow = 2'000'000;

struct Case {
  DataType type;
  Reduction reduction;
  size_t count;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const DataType type :
       {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBFloat16,
        DataType::kInt32, DataType::kInt64, DataType::kUInt8}) {
    const bool floating = type < DataType::kInt32;
    cases.push_back({type, Reduction::kSum, 100});
    cases.push_back({type, Reduction::kSum, 100'003});
    cases.push_back({type, floating ? Reduction::kAvg : Reduction::kMax, 70'001});
  }
  cases.push_back({DataType::kFloat32, Reduction::kAvg, 1});
  cases.push_back({DataType::kFloat32, Reduction::kSum, 0});
  cases.push_back({DataType::kFloat32, Reduction::kMin, 5000});
  cases.push_back({DataType::kFloat64, Reduction::kProduct, 5000});
  if (kSanitized) return cases;                                         // these take minutes
  cases.push_back({DataType::kFloat32, Reduction::kAvg, 9'000'000});    // staged in two pieces
  cases.push_back({DataType::kFloat32, Reduction::kSum, kMostOfARow});  // two pieces, as rows
  return cases;
}

void ReduceAll(Collectives& group, int rank, Results& results) {
  for (const Case& one : Cases()) {
    std::vector<std::byte> data = BytesFor(one.type, one.count, rank);
    const Status status = group.AllReduce(data.data(), one.count, one.type, one.reduction, Soon());
    ASSERT_TRUE(status.ok()) << status.error().what;
    results[static_cast<size_t>(rank)].push_back(std::move(data));
    if (one.count > kMostOfARow) continue;
    const std::vector<std::byte> rows =
        BytesFor(one.type, one.count * static_cast<size_t>(group.size()), rank);
    data.resize(one.count * SizeOf(one.type));
    const Status scattered =
        group.ReduceScatter(rows.data(), data.data(), one.count, one.type, one.reduction, Soon());
    ASSERT_TRUE(scattered.ok()) << scattered.error().what;
    results[static_cast<size_t>(rank)].push_back(std::move(data));
  }
}

TEST(MultiNodeGroup, GivesTheBitsOfOneNodeForEveryPlacement) {
  Results expected(4);
  RunOnOneNode(4, [&](Collectives& group, int rank) { ReduceAll(group, rank, expected); });
  for (const Placement& placement : std::vector<Placement>{
           {0, 0, 1, 1}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}, {5, 1, 1, 5}}) {
    SCOPED_TRACE(testing::PrintToString(placement));
    Results results(4);
    Nodes(placement).Run([&](Collectives& group, int rank) { ReduceAll(group, rank, results); });
    for (size_t rank = 0; rank < 4; ++rank) {
      for (size_t i = 0; i < expected[rank].size(); ++i) {
        EXPECT_TRUE(results[rank][i] == expected[rank][i]) << "rank " << rank << ", case " << i;
      }
    }
  }
}

TEST(MultiNodeSlices, PayWhereTheBusiestNodeSendsLess) {
  const auto pays = [](const Placement& placement, DataType type) {
    return MultiNodeSlices::Choose(NodePlacement(0, placement), type, false).has_value();
  };
  EXPECT_TRUE(pays({0, 1}, DataType::kFloat32));         // not less, but both nodes sum
  EXPECT_TRUE(pays({0, 1, 2}, DataType::kFloat32));      // 4/3 of the array, and not twice
  EXPECT_FALSE(pays({0, 0, 1, 1}, DataType::kFloat32));  // two ranks' values, and not their sum
  EXPECT_TRUE(pays({0, 1}, DataType::kBFloat16));        // values of 16 bits, and not sums of 32
  EXPECT_TRUE(pays({0, 0, 1, 1, 2, 2}, DataType::kBFloat16));
  EXPECT_FALSE(pays({0, 0, 0, 0, 1, 1, 1, 1}, DataType::kBFloat16));
  EXPECT_TRUE(pays({0, 1, 0, 1}, DataType::kFloat32));  // the chain would pass the link three times
}

TEST(MultiNodeSlices, SendSumsOfNodesWhereTheyAreAllowedAndLess) {
  using Terms = MultiNodeSlices::Terms;
  const auto chosen = [](const Placement& placement, DataType type) {
    return MultiNodeSlices::Choose(NodePlacement(0, placement), type, true);
  };
  EXPECT_EQ(chosen({0, 0, 1, 1, 2, 2}, DataType::kFloat32), Terms::kNode);    // 4/3, and not 2
  EXPECT_EQ(chosen({0, 1, 0, 1}, DataType::kFloat32), Terms::kNode);          // 1, and not 3/2
  EXPECT_EQ(chosen({0, 0, 1, 1}, DataType::kFloat32), std::nullopt);          // the chain's 1
  EXPECT_EQ(chosen({0, 1, 2}, DataType::kFloat32), Terms::kRanks);            // no sums to make
  EXPECT_EQ(chosen({0, 1}, DataType::kFloat32), Terms::kRanks);               // both hosts sum
  EXPECT_EQ(chosen({0, 0, 1, 1, 2, 2}, DataType::kBFloat16), Terms::kRanks);  // sums of 32 bits
  EXPECT_EQ(chosen({0, 0, 0, 1, 1, 1, 2, 2, 2}, DataType::kBFloat16), Terms::kNode);
}

// Each rank has small whole numbers, whose sums are exact in any order.
template <typename T>
void ExpectSumsOfNodes(const Placement& placement, DataType type, Reduction reduction) {
  constexpr size_t kCount = 150'001;
  const size_t n = placement.size();
  std::vector<std::vector<T>> results(n);
  Nodes(placement).Run([&](Collectives& group, int rank) {
    std::vector<T> values(kCount);
    for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<T>((i * 7 + rank * 13) % 101);
    const Status status = group.AllReduce(values.data(), kCount, type, reduction, Soon(),
                                          AllReduceAlgorithm::kHierarchical);
    ASSERT_TRUE(status.ok()) << status.error().what;
    results[static_cast<size_t>(rank)] = std::move(values);
  });
  for (size_t i = 0; i < kCount; ++i) {
    double expected = 0;
    for (size_t rank = 0; rank < n; ++rank) {
      const double value = (i * 7 + rank * 13) % 101;
      expected = reduction == Reduction::kMax ? std::max(expected, value) : expected + value;
    }
    if (reduction == Reduction::kAvg) expected /= static_cast<double>(n);
    for (size_t rank = 0; rank < n; ++rank) {
      ASSERT_EQ(results[rank][i], static_cast<T>(expected)) << "rank " << rank << ", " << i;
    }
  }
}

TEST(MultiNodeGroup, AddsTheSumsOfNodes) {
  for (const Placement& placement : std::vector<Placement>{
           {0, 0, 1, 1, 2, 2}, {0, 1, 0, 2, 1, 2}, {0, 0, 0, 1, 1, 2}, {4, 4, 7, 7}}) {
    SCOPED_TRACE(testing::PrintToString(placement));
    ExpectSumsOfNodes<float>(placement, DataType::kFloat32, Reduction::kSum);
    ExpectSumsOfNodes<double>(placement, DataType::kFloat64, Reduction::kAvg);
    ExpectSumsOfNodes<int32_t>(placement, DataType::kInt32, Reduction::kMax);
    ExpectSumsOfNodes<uint8_t>(placement, DataType::kUInt8, Reduction::kMax);
  }
}

// Nine ranks of bfloat16: their sums travel as floats and are rounded once.
TEST(MultiNodeGroup, RoundsTheSumsOfNodesOnce) {
  constexpr size_t kCount = 60'001;
  const Placement placement = {0, 0, 0, 1, 1, 1, 2, 2, 2};
  std::vector<std::vector<std::byte>> results(placement.size());
  Nodes(placement).Run([&](Collectives& group, int rank) {
    std::vector<std::byte> data = BytesFor(DataType::kBFloat16, kCount, rank);
    const Status status = group.AllReduce(data.data(), kCount, DataType::kBFloat16, Reduction::kSum,
                                          Soon(), AllReduceAlgorithm::kHierarchical);
    ASSERT_TRUE(status.ok()) << status.error().what;
    results[static_cast<size_t>(rank)] = std::move(data);
  });
  const auto number = [](const std::vector<std::byte>& bytes, size_t i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    return static_cast<double>(std::bit_cast<float>(uint32_t{bits} << 16));
  };
  std::vector<std::vector<std::byte>> inputs;
  for (size_t rank = 0; rank < placement.size(); ++rank) {
    inputs.push_back(BytesFor(DataType::kBFloat16, kCount, static_cast<int>(rank)));
  }
  for (size_t i = 0; i < kCount; ++i) {
    double sum = 0;
    double size = 0;
    for (const auto& input : inputs) {
      sum += number(input, i);
      size += std::abs(number(input, i));
    }
    // One rounding to 8 bits, and those of floats.
    ASSERT_NEAR(number(results[0], i), sum, std::abs(sum) / 256 + size * 1e-6) << i;
  }
  for (const auto& result : results) EXPECT_TRUE(result == results[0]);
}

TEST(MultiNodeGroup, NamesAlgorithmsThatDisagree) {
  std::vector<std::string> found(3);
  Nodes({0, 1, 2}).Run([&](Collectives& group, int rank) {
    std::vector<float> data(100'000);
    const Status status = group.AllReduce(
        data.data(), data.size(), DataType::kFloat32, Reduction::kSum, Soon(),
        rank == 1 ? AllReduceAlgorithm::kHierarchical : AllReduceAlgorithm::kDirect);
    if (!status.ok()) found[static_cast<size_t>(rank)] = status.error().what;
  });
  for (const std::string& what : found) {
    EXPECT_NE(what.find(", hierarchical"), std::string::npos) << what;
  }
}

// With three ranks on a node sums are worth their way also as accumulated floats.
TEST(MultiNodeGroup, ReduceScattersHalvesWithTheBitsOfOneNode) {
  constexpr size_t kCount = 50'001;
  const auto scatter = [](std::vector<std::vector<std::byte>>& results) {
    return [&results](Collectives& group, int rank) {
      const std::vector<std::byte> rows = BytesFor(DataType::kBFloat16, kCount * 6, rank);
      std::vector<std::byte> row(kCount * 2);
      const Status status = group.ReduceScatter(rows.data(), row.data(), kCount,
                                                DataType::kBFloat16, Reduction::kAvg, Soon());
      ASSERT_TRUE(status.ok()) << status.error().what;
      results[static_cast<size_t>(rank)] = std::move(row);
    };
  };
  std::vector<std::vector<std::byte>> expected(6);
  std::vector<std::vector<std::byte>> results(6);
  RunOnOneNode(6, scatter(expected));
  Nodes({0, 0, 0, 1, 1, 1}).Run(scatter(results));
  for (size_t rank = 0; rank < 6; ++rank) EXPECT_TRUE(results[rank] == expected[rank]) << rank;
}

// Every other collective, with its results one after the other.
void ExchangeAll(Collectives& group, int rank, std::vector<int64_t>& results) {
  const auto n = static_cast<size_t>(group.size());
  for (const size_t count : {size_t{0}, size_t{3}, size_t{900}, size_t{60'001}}) {
    std::vector<int64_t> rows = Values<int64_t>(count * n, rank);
    std::vector<int64_t> one(count);
    std::vector<int64_t> all(count * n);
    const size_t bytes = count * sizeof(int64_t);
    const auto check = [&](const Status& status, const std::vector<int64_t>& result) {
      ASSERT_TRUE(status.ok()) << status.error().what;
      results.insert(results.end(), result.begin(), result.end());
    };
    check(group.AllGather(rows.data(), all.data(), bytes, Soon()), all);
    check(group.AllToAll(rows.data(), all.data(), bytes, Soon()), all);
    check(group.ReduceScatter(rows.data(), one.data(), count, DataType::kInt64, Reduction::kSum,
                              Soon()),
          one);
    for (int root = 0; root < group.size(); ++root) {
      std::fill(all.begin(), all.end(), 0);
      one.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count));
      check(group.Broadcast(one.data(), bytes, root, Soon()), one);
      check(group.Gather(rows.data(), all.data(), bytes, root, Soon()), all);
      check(group.Scatter(rows.data(), one.data(), bytes, root, Soon()), one);
      check(group.Reduce(one.data(), count, DataType::kInt64, Reduction::kMax, root, Soon()), one);
    }
    // Rank f sends count + f + t elements to rank t.
    std::vector<size_t> send;
    std::vector<size_t> receive;
    for (size_t peer = 0; peer < n; ++peer) {
      send.push_back((count + static_cast<size_t>(rank) + peer) * sizeof(int64_t));
      receive.push_back(send.back());
    }
    rows = Values<int64_t>((count + 2 * n) * n, rank);
    all.assign(rows.size(), 0);
    check(group.AllToAllV(rows.data(), send, all.data(), receive, Soon()), all);
    check(group.Barrier(Soon()), {});
  }
}

TEST(MultiNodeGroup, ExchangesWhatOneNodeExchanges) {
  std::vector<std::vector<int64_t>> expected(4);
  RunOnOneNode(4, [&](Collectives& group, int rank) {
    ExchangeAll(group, rank, expected[static_cast<size_t>(rank)]);
  });
  for (const Placement& placement :
       std::vector<Placement>{{0, 0, 1, 1}, {1, 0, 0, 0}, {1, 0, 1, 0}}) {
    SCOPED_TRACE(testing::PrintToString(placement));
    std::vector<std::vector<int64_t>> results(4);
    Nodes(placement).Run([&](Collectives& group, int rank) {
      ExchangeAll(group, rank, results[static_cast<size_t>(rank)]);
    });
    for (size_t rank = 0; rank < 4; ++rank) EXPECT_TRUE(results[rank] == expected[rank]) << rank;
  }
}

TEST(MultiNodeGroup, KeepsTheLastResultForRanksThatReadItLater) {
  constexpr size_t kCount = 2048;  // as much as small operations have
  for (int round = 0; round < 8; ++round) {
    std::vector<std::vector<double>> sums(4);
    Nodes({0, 0, 1, 1}).Run([&](Collectives& group, int rank) {
      std::vector<double> values(kCount, rank + 1.0);
      const Status status =
          group.AllReduce(values.data(), kCount, DataType::kFloat64, Reduction::kSum, Soon());
      ASSERT_TRUE(status.ok()) << status.error().what;
      sums[static_cast<size_t>(rank)] = std::move(values);
    });
    for (const std::vector<double>& sum : sums) {
      ASSERT_EQ(sum, std::vector<double>(kCount, 10.0)) << "round " << round;
    }
  }
}

// The error of every rank that `body` leaves.
std::vector<Error> ErrorsOf(const Placement& placement,
                            const std::function<Status(Collectives& group, int rank)>& body) {
  std::vector<Error> errors(placement.size());
  Nodes(placement).Run([&](Collectives& group, int rank) {
    const Status status = body(group, rank);
    if (!status.ok()) errors[static_cast<size_t>(rank)] = status.error();
  });
  return errors;
}

TEST(MultiNodeGroup, NamesBothOperationsWhenNodesDisagree) {
  for (const size_t count : {size_t{10}, size_t{100'000}}) {
    const auto errors = ErrorsOf({0, 0, 1, 1}, [&](Collectives& group, int rank) {
      std::vector<float> data(count + 8);
      const size_t own_count = count + (rank < 2 ? 0 : 1);
      return group.AllReduce(data.data(), own_count, DataType::kFloat32, Reduction::kSum, Soon());
    });
    for (const Error& error : errors) {
      EXPECT_EQ(error.title, "MISMATCHED COLLECTIVES") << error.what;
      const std::string n = "number 1 (sum of ";
      EXPECT_NE(error.what.find(n + std::to_string(count) + " float32)"), std::string::npos);
      EXPECT_NE(error.what.find(n + std::to_string(count + 1) + " float32)"), std::string::npos);
    }
  }
}

TEST(MultiNodeGroup, RefusesLargerOperationsAfterAnError) {
  std::latch gathered(3);  // else the error could reach a rank that has not ended the first gather
  const auto errors = ErrorsOf({0, 0, 1}, [&gathered](Collectives& group, int rank) {
    std::vector<std::byte> own(800'000), all(3 * own.size());
    EXPECT_TRUE(group.AllGather(own.data(), all.data(), 200'000, Soon()).ok());
    gathered.arrive_and_wait();
    const Status mismatched =
        rank == 1 ? group.AllReduce(own.data(), 25'000, DataType::kFloat32, Reduction::kSum, Soon())
                  : group.AllGather(own.data(), all.data(), 400'000, Soon());
    EXPECT_EQ(mismatched.error().title, "MISMATCHED COLLECTIVES");
    return group.AllGather(own.data(), all.data(), 800'000, Soon());
  });
  for (const Error& error : errors) EXPECT_NE(error.title, "");
}

TEST(MultiNodeGroup, NamesTheRankThatDidNotComeOnEveryNode) {
  const auto errors = ErrorsOf({0, 0, 1, 1}, [](Collectives& group, int rank) -> Status {
    if (rank == 2) return {};
    return group.Barrier(Clock::now() + std::chrono::milliseconds(300));
  });
  for (const size_t rank : {0U, 1U, 3U}) {
    EXPECT_EQ(errors[rank].title, "COLLECTIVE TIMED OUT");
    EXPECT_EQ(errors[rank].code, Code::kDeadlineExceeded);
    EXPECT_NE(errors[rank].what.find("did not come to barrier number 1 in time: 2"),
              std::string::npos)
        << errors[rank].what;
  }
}

TEST(MultiNodeGroup, NamesTheRanksOfASilentNode) {
  const auto errors = ErrorsOf({0, 0, 1, 1}, [](Collectives& group, int rank) -> Status {
    if (rank >= 2) return {};
    return group.Barrier(Clock::now() + std::chrono::milliseconds(300));
  });
  for (const size_t rank : {0U, 1U}) {
    EXPECT_EQ(errors[rank].title, "COLLECTIVE TIMED OUT");
    EXPECT_NE(errors[rank].what.find("2, 3"), std::string::npos) << errors[rank].what;
  }
}

// Each rank in the operation in which it is at that moment.
TEST(MultiNodeGroup, ALostRankEndsTheWaitsOfAllNodes) {
  constexpr int kLost = 2;
  for (const size_t count : {size_t{10}, size_t{300'000}}) {
    const std::array<UniqueFd, 2> files = {*CreateFlightRecorderFile(2),
                                           *CreateFlightRecorderFile(2)};
    std::vector<std::unique_ptr<FlightRecorder>> recorders;
    for (int rank = 0; rank < 4; ++rank) {
      recorders.push_back(*FlightRecorder::Attach(files[rank / 2], rank % 2, rank));
      recorders.back()->SetRecoveryGeneration(0);
    }
    Nodes nodes({0, 0, 1, 1});
    nodes.Run(
        [&](Collectives& group, int rank) {
          std::vector<float> data(count, 1);
          for (int i = 0;; ++i) {
            if (rank == kLost && i == 3) break;
            const Status done =
                group.AllReduce(data.data(), count, DataType::kFloat32, Reduction::kMax, Soon());
            if (done.ok()) continue;
            EXPECT_EQ(done.error().code, Code::kRankLost) << done.error().what;
            EXPECT_TRUE(done.error().what.starts_with("Rank 2 ended")) << done.error().what;
            EXPECT_GE(i, 2) << "rank " << rank;  // the lost one may have ended it first
            return;
          }
          EXPECT_TRUE(MarkLost(files[1], kLost % 2, 1).ok());
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
          EXPECT_TRUE(MarkLostElsewhere(files[0], kLost, 1).ok());
        },
        [&](int rank) {
          return LossWatch(recorders[rank].get(), /*generation=*/0, /*several_nodes=*/true);
        });
  }
}

// By this name it runs first: a process that has loaded UCX should not fork.
TEST(MultiNodeGroupDeathTest, ReportsAKilledProcessOnAnotherNode) {
  // Processes: their transports must end with them.
  int to_parent[2];
  int to_child[2];
  ASSERT_EQ(pipe(to_parent), 0);
  ASSERT_EQ(pipe(to_child), 0);
  const auto tell = [](int fd, const std::string& address) {
    const size_t bytes = address.size();
    return write(fd, &bytes, sizeof bytes) == sizeof bytes &&
           write(fd, address.data(), bytes) == static_cast<ssize_t>(bytes);
  };
  const auto hear = [](int fd) {
    size_t bytes = 0;
    if (read(fd, &bytes, sizeof bytes) != sizeof bytes) return std::string();
    std::string address(bytes, ' ');
    return read(fd, address.data(), bytes) == static_cast<ssize_t>(bytes) ? address : "";
  };
  const auto run = [&](int rank, int in, int out) {
    std::shared_ptr<Transport> transport = OpenTransport(rank);
    tell(out, transport->address());
    std::vector<std::string> addresses(2, transport->address());
    addresses[static_cast<size_t>(1 - rank)] = hear(in);
    transport->SetPeers(addresses);
    const auto memory = SharedRegion::CreateFile();
    const auto region = std::move(*SharedRegion::Map(*memory, 1));
    MultiNodeGroup group(*region, NodePlacement(rank, {0, 1}),
                         {.transport = transport, .peers = {0, 1}},
                         {.spin = std::chrono::nanoseconds(0), .names = {rank}});
    std::vector<float> data(1'000'000, 1);
    Status status;
    for (int i = 0; status.ok(); ++i) {
      if (rank == 1 && i == 3) raise(SIGKILL);
      status =
          group.AllReduce(data.data(), data.size(), DataType::kFloat32, Reduction::kMax, Soon());
    }
    return status.error();
  };
  const pid_t child = fork();
  if (child == 0) {
    run(1, to_child[0], to_parent[1]);
    _exit(0);
  }
  const auto begin = Clock::now();
  const Error error = run(0, to_parent[0], to_child[1]);
  waitpid(child, nullptr, 0);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30)) << "only the deadline ended it";
  EXPECT_EQ(error.title, "CONNECTION TO A RANK LOST");
  EXPECT_NE(error.what.find("all_reduce number 4"), std::string::npos) << error.what;
  EXPECT_NE(error.what.find("rank 1"), std::string::npos) << error.what;
}

}  // namespace
}  // namespace ddprun::trainer
