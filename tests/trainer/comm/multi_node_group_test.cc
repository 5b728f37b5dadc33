// Ranks as threads, on nodes that are memory files of their own; between them UCX over loopback.
#include "trainer/comm/multi_node_group.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/trainer/comm/rank_threads.h"
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
  explicit Nodes(const Placement& node_of) : node_of_(node_of), transports_(node_of.size()) {
    for (size_t node = 0; node < node_of.size(); ++node) {
      memory_.push_back(std::move(*SharedRegion::CreateFile()));
    }
    std::vector<std::string> addresses;
    for (size_t rank = 0; rank < node_of.size(); ++rank) {
      auto transport = Transport::Create({.rank = static_cast<int>(rank), .devices = {"lo"}});
      if (!transport) throw std::runtime_error(transport.error().what);
      transports_[rank] = std::move(*transport);
      addresses.push_back(transports_[rank]->address());
    }
    for (const auto& transport : transports_) transport->SetPeers(addresses);
  }

  // Runs body(group, rank) for every rank.
  void Run(const std::function<void(Collectives& group, int rank)>& body) {
    const int size = static_cast<int>(node_of_.size());
    RunRanks(size, [&](int rank) {
      const NodePlacement placement(rank, node_of_);
      const UniqueFd& memory = memory_[static_cast<size_t>(placement.node())];
      const int local_size = static_cast<int>(placement.Members(placement.node()).size());
      const auto region = std::move(*SharedRegion::Map(memory, local_size));
      GroupWire wire{.transport = transports_[static_cast<size_t>(rank)], .peers = {}};
      for (int peer = 0; peer < size; ++peer) wire.peers.push_back(peer);
      MultiNodeGroup group(*region, placement, wire, {});
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
    std::memcpy(bytes.data(), values.data(), bytes.size());
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

// Every rank's result of the same all-reduces.
using Results = std::vector<std::vector<std::vector<std::byte>>>;

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
  cases.push_back({DataType::kFloat32, Reduction::kAvg, 9'000'000});  // staged in two pieces
  return cases;
}

void AllReduceAll(Collectives& group, int rank, Results& results) {
  for (const Case& one : Cases()) {
    std::vector<std::byte> data = BytesFor(one.type, one.count, rank);
    const Status status = group.AllReduce(data.data(), one.count, one.type, one.reduction, Soon());
    ASSERT_TRUE(status.ok()) << status.error().what;
    results[static_cast<size_t>(rank)].push_back(std::move(data));
  }
}

TEST(MultiNodeGroup, GivesTheBitsOfOneNodeForEveryPlacement) {
  Results expected(4);
  RunOnOneNode(4, [&](Collectives& group, int rank) { AllReduceAll(group, rank, expected); });
  for (const Placement& placement : std::vector<Placement>{
           {0, 0, 1, 1}, {0, 1, 1, 1}, {0, 0, 0, 1}, {0, 1, 0, 1}, {0, 1, 2, 3}, {5, 1, 1, 5}}) {
    SCOPED_TRACE(testing::PrintToString(placement));
    Results results(4);
    Nodes(placement).Run([&](Collectives& group, int rank) { AllReduceAll(group, rank, results); });
    for (size_t rank = 0; rank < 4; ++rank) {
      for (size_t i = 0; i < expected[rank].size(); ++i) {
        EXPECT_TRUE(results[rank][i] == expected[rank][i]) << "rank " << rank << ", case " << i;
      }
    }
  }
}

}  // namespace
}  // namespace ddprun::trainer
