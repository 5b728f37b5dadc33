// Virtual ranks: one order of sums, so the same bits for any number of processes.
#include "trainer/parallel/virtual_ranks.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "base/failure.h"
#include "tests/trainer/load_state.h"
#include "tests/trainer/strategies/strategy_fixture.h"

namespace ddprun::trainer {
namespace {

using Overlap = Reducer::Overlap;

// A stack of sums, written out: "(0+1)".
void Push(std::vector<std::string>& stack,
          int64_t ranks,
          RankRange piece,
          RankRange share,
          std::string value) {
  for (int64_t sums = SumsAfter(ranks, piece, share); sums > 0; --sums) {
    ASSERT_FALSE(stack.empty());
    value = "(" + stack.back() + "+" + value + ")";
    stack.pop_back();
  }
  stack.push_back(std::move(value));
}

std::string SumOf(int64_t ranks, int processes) {
  std::vector<std::string> total;
  for (int process = 0; process < processes; ++process) {
    const RankRange share = RanksOfProcess(ranks, process, processes);
    std::vector<std::string> own;
    for (int64_t rank = share.begin; rank < share.end; ++rank) {
      Push(own, ranks, {.begin = rank, .end = rank + 1}, share, std::to_string(rank));
    }
    const std::vector<RankRange> nodes = SubtreesIn(ranks, share);
    EXPECT_EQ(own.size(), nodes.size());
    for (size_t i = 0; i < nodes.size() && i < own.size(); ++i) {
      Push(total, ranks, nodes[i], {.begin = 0, .end = ranks}, own[i]);
    }
  }
  EXPECT_EQ(total.size(), 1U);
  return total.at(0);
}

TEST(RankTree, AddsUpInOneOrderForAnyNumberOfProcesses) {
  EXPECT_EQ(SumOf(6, 1), "(((0+1)+2)+((3+4)+5))");
  for (int64_t ranks = 1; ranks <= 64; ++ranks) {
    const std::string expected = SumOf(ranks, static_cast<int>(ranks));
    for (int processes = 1; processes < ranks; ++processes) {
      ASSERT_EQ(SumOf(ranks, processes), expected) << ranks << " over " << processes;
    }
  }
}

TEST(RankTree, SharesRanksOutEvenlyAndKeepsFewSums) {
  const auto sizes = [](int64_t ranks, int processes) {
    std::vector<int64_t> found;
    for (int process = 0; process < processes; ++process) {
      found.push_back(RanksOfProcess(ranks, process, processes).size());
    }
    return found;
  };
  EXPECT_EQ(sizes(8, 3), (std::vector<int64_t>{3, 3, 2}));
  for (int64_t ranks = 1; ranks <= 64; ++ranks) {
    const auto most = static_cast<size_t>(2 * std::bit_width(static_cast<uint64_t>(ranks)));
    for (int processes = 1; processes <= ranks; ++processes) {
      int64_t begin = 0;
      for (int process = 0; process < processes; ++process) {
        const RankRange share = RanksOfProcess(ranks, process, processes);
        EXPECT_EQ(share.begin, begin);
        EXPECT_GE(share.size(), 1);
        EXPECT_LE(SubtreesIn(ranks, share).size(), most);
        begin = share.end;
      }
      EXPECT_EQ(begin, ranks);
    }
  }
}

// Returns numbers whose sum has other bits in each order of ranks.
at::Tensor Row(int64_t rank) {
  return Random({5, 3}, static_cast<uint64_t>(rank)).to(at::kDouble).exp();
}

TEST(SumOverRanks, HasTheSameBitsForAnyNumberOfProcesses) {
  for (const int64_t ranks : {1, 5, 8}) {
    at::Tensor expected;
    for (int processes = 1; processes <= ranks; ++processes) {
      WithGroup(processes, [&](const auto& group, int process) {
        const RankRange own = RanksOfProcess(ranks, process, processes);
        std::vector<at::Tensor> rows;
        for (int64_t rank = own.begin; rank < own.end; ++rank) rows.push_back(Row(rank));
        const at::Tensor sum = SumOverRanks(at::stack(rows), {own, ranks}, group.get());
        if (process == 0 && processes == 1) expected = sum.clone();
        EXPECT_TRUE(sum.equal(expected)) << ranks << " over " << processes;
      });
    }
  }
}

struct VirtualVariant {
  const char* name;
  int64_t ranks = 8;
  bool some_unused = false;
  bool in_backward = false;
  bool clips = false;
  Overlap overlap = Overlap::kBackward;
};

std::vector<NamedParameter> VirtualWeights() {
  const std::vector<std::vector<int64_t>> sizes = {{6, 19}, {19, 19}, {19, 3}, {19, 5}};
  std::vector<NamedParameter> weights;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const at::Tensor weight = Random(sizes[i], 10 + i).mul_(0.3);
    weights.push_back({"weight" + std::to_string(i), weight.set_requires_grad(true)});
  }
  return weights;
}

// The last weight is used by some virtual ranks only, if so asked. The buffer is a running mean
// that the loss depends on.
at::Tensor LossOfBatch(const std::vector<NamedParameter>& w,
                       const at::Tensor& mean,
                       uint64_t batch,
                       bool uses_all) {
  at::Tensor x = at::tanh(at::matmul(Random({5, 6}, 100 + batch), w[0].tensor) + mean.clone());
  {
    const at::NoGradGuard no_grad;
    mean.mul_(0.9).add_(x.detach().mean(0), 0.1);
  }
  x = at::tanh(at::matmul(x, w[1].tensor));
  const at::Tensor sum = at::matmul(x, w[2].tensor).pow(2).sum();
  return uses_all ? sum + at::matmul(x, w[3].tensor).abs().sum() : sum;
}

constexpr int64_t kMicroBatches = 2;

std::vector<at::Tensor> TrainVirtual(const c10::intrusive_ptr<HostProcessGroup>& group,
                                     const VirtualVariant& variant,
                                     int64_t virtual_ranks) {
  const std::vector<NamedParameter> weights = VirtualWeights();
  const at::Tensor mean = at::zeros({19});
  const auto strategy =
      DataParallelOf(weights, group,
                     {.sync = {.reducer = {.limits = {.first_bytes = 400, .cap_bytes = 800},
                                           .overlap = variant.overlap,
                                           .find_unused_parameters = variant.some_unused}},
                      .update_in_backward = variant.in_backward,
                      .virtual_ranks = virtual_ranks},
                     {{"mean", mean}});
  const RankRange own = RanksOfProcess(variant.ranks, group->getRank(), group->getSize());
  std::vector<at::Tensor> norms;
  for (int64_t step = 0; step < 4; ++step) {
    const auto loss = [&](size_t index) {
      const auto i = static_cast<int64_t>(index);
      const int64_t rank = own.begin + i % own.size();
      const int64_t batch = (step * variant.ranks + rank) * kMicroBatches + i / own.size();
      return LossOfBatch(weights, mean, batch, !variant.some_unused || (rank + step) % 3 == 0);
    };
    Backward(*strategy, loss, kMicroBatches * own.size(), 0.05);
    if (variant.clips) norms.push_back(at::tensor(strategy->ClipGradients(0.1), at::kDouble));
    strategy->Step();
  }
  strategy->BeforeEvaluation();
  std::vector<at::Tensor> found = {mean};
  for (const NamedParameter& weight : weights) found.push_back(weight.tensor.detach());
  found.insert(found.end(), norms.begin(), norms.end());
  return found;
}

class VirtualRanksTest : public testing::TestWithParam<VirtualVariant> {};

TEST_P(VirtualRanksTest, HaveTheBitsOfAsManyProcesses) {
  const VirtualVariant& variant = GetParam();
  std::vector<at::Tensor> expected;
  for (int processes = 1; processes <= variant.ranks; ++processes) {
    std::vector<std::vector<at::Tensor>> found(static_cast<size_t>(processes));
    WithGroup(processes, [&](const auto& group, int rank) {
      found[static_cast<size_t>(rank)] = TrainVirtual(group, variant, variant.ranks);
    });
    if (processes == 1) expected = found[0];
    for (const std::vector<at::Tensor>& one : found) {
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(one[i].equal(expected[i])) << i << " of " << processes << " processes";
      }
    }
  }
  // And, but for the last bits, those of so many ranks without any.
  WithGroup(static_cast<int>(variant.ranks), [&](const auto& group, int rank) {
    const std::vector<at::Tensor> plain = TrainVirtual(group, variant, 0);
    for (size_t i = 0; rank == 0 && i < expected.size(); ++i) {
      EXPECT_TRUE(at::allclose(plain[i], expected[i], 1e-5, 1e-6)) << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Ways,
    VirtualRanksTest,
    testing::Values(VirtualVariant{.name = "Plain"},
                    VirtualVariant{.name = "SixOfThem", .ranks = 6},
                    VirtualVariant{.name = "SomeUnused", .ranks = 5, .some_unused = true},
                    VirtualVariant{.name = "InBackward", .ranks = 5, .in_backward = true},
                    VirtualVariant{.name = "Clipped", .ranks = 5, .clips = true},
                    VirtualVariant{.name = "OverlapBoth", .ranks = 5, .overlap = Overlap::kBoth},
                    VirtualVariant{.name = "OverlapNone", .ranks = 3, .overlap = Overlap::kNone}),
    [](const auto& variant) { return std::string(variant.param.name); });

TEST(VirtualRanksState, GoesOnWithAnotherNumberOfProcessesAndIsRefusedByAnotherTree) {
  StateDict state;
  WithGroup(2, [&](const auto& group, int rank) {
    const auto strategy = DataParallelOf(VirtualWeights(), group, {.virtual_ranks = 4});
    if (rank == 0) state = CopyOf(strategy->State());
  });
  WithGroup(3, [&](const auto& group, int) {
    const auto same = DataParallelOf(VirtualWeights(), group, {.virtual_ranks = 4});
    LoadState(state, NamesOf(*same));
    const auto other = DataParallelOf(VirtualWeights(), group, {.virtual_ranks = 8});
    EXPECT_THROW(LoadState(state, NamesOf(*other)), Failure);
  });
}

}  // namespace
}  // namespace ddprun::trainer
