// Which rank writes which tensor, and which checkpoints stay.
#include "trainer/checkpoint/plan.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/crc32c.h"
#include "trainer/checkpoint/checkpoint_folder.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

StateTensor WholeTensor(const std::string& name, at::IntArrayRef sizes) {
  return {.name = name,
          .tensor = at::zeros(sizes),
          .global_shape = sizes.vec(),
          .offset = std::vector<int64_t>(sizes.size())};
}

TEST(PlanShard, SharesOutWhatSeveralHave) {
  constexpr int64_t kMiB = 1 << 20;
  std::vector<StateTensor> tensors;
  int64_t all_bytes = 0;
  const std::vector<std::vector<int64_t>> shapes = {{7, 3},      {},     {kMiB},
                                                    {1000, 700}, {0, 5}, {1, 30}};
  for (const auto& sizes : shapes) {
    tensors.push_back(WholeTensor("t" + std::to_string(tensors.size()), sizes));
    all_bytes += static_cast<int64_t>(tensors.back().tensor.nbytes());
  }
  for (const int64_t ranks : {1, 2, 3, 4, 7, 200}) {
    std::vector<std::vector<int>> times(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      times[i].resize(tensors[i].tensor.dim() == 0 ? 1 : tensors[i].tensor.size(0));
    }
    for (int64_t rank = 0; rank < ranks; ++rank) {
      // All ranks of a job, or as many that have the same parts.
      for (StateTensor& tensor : tensors) tensor.replicas = {.rank = rank, .size = ranks};
      if (ranks % 2 == 0) tensors[2].replicas = {.rank = 0, .size = 0};
      int64_t bytes = 0;
      for (const PlannedPiece& piece : PlanShard(tensors, {.rank = rank, .size = ranks})) {
        for (int64_t row = piece.begin; row < piece.end; ++row) ++times[piece.tensor][row];
        bytes += RowsOf(tensors[piece.tensor], piece).nbytes();
      }
      // No more than an equal share, and what is too small to be cut.
      EXPECT_LE(bytes, all_bytes / ranks + 2 * (128 << 10)) << rank << " of " << ranks;
    }
    for (const auto& tensor : times) EXPECT_THAT(tensor, testing::Each(1));
  }
}

TEST(PlanShard, WritesWhatOneRankHasWithoutPadding) {
  // Ten rows over three ranks, four each: the last has two rows of padding.
  std::vector<StateTensor> tensors = {
      {.name = "w", .tensor = at::zeros({4, 2}), .global_shape = {10, 2}, .offset = {8, 0}},
      {.name = "none", .tensor = at::zeros({0, 2}), .global_shape = {10, 2}, .offset = {10, 0}},
      {.name = "beyond", .tensor = at::zeros({4, 2}), .global_shape = {10, 2}, .offset = {12, 0}},
      {.name = "flat", .tensor = at::zeros({4}), .global_shape = {5, 2}, .offset = {7}}};
  tensors.back().flat = true;
  for (StateTensor& tensor : tensors) tensor.replicas = {.rank = 0, .size = 1};
  EXPECT_THAT(PlanShard(tensors, {.rank = 2, .size = 3}),
              ElementsAre(PlannedPiece{.tensor = 0, .begin = 0, .end = 2},
                          PlannedPiece{.tensor = 3, .begin = 0, .end = 3}));
}

TEST(PlanShard, WritesTiedTensorsOnce) {
  std::vector<StateTensor> tensors = {WholeTensor("a", {4}), WholeTensor("b", {4}),
                                      WholeTensor("c", {2, 2})};
  tensors[1].tensor = tensors[0].tensor;
  tensors[2].tensor = tensors[0].tensor.view({2, 2});  // of another shape: not the same
  EXPECT_THAT(FindFirstOfTied(tensors), ElementsAre(0, 0, 2));
  EXPECT_THAT(PlanShard(tensors, {}), ElementsAre(PlannedPiece{0, 0, 4}, PlannedPiece{2, 0, 2}));
}

std::vector<int64_t> SurplusSteps(std::vector<StoredCheckpoint> stored,
                                  int64_t committed,
                                  const Retention& retention) {
  std::vector<int64_t> steps;
  for (const StoredCheckpoint& item : FindSurplus(stored, committed, retention)) {
    steps.push_back(item.step);
  }
  std::ranges::sort(steps);
  return steps;
}

TEST(FindSurplus, KeepsTheNewestAndTheBest) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const std::vector<StoredCheckpoint> stored = {{"", 10, 0.5}, {"", 20, 0.1}, {"", 30, kNaN},
                                                {"", 40, 0.3}, {"", 50, {}},  {"", 60, 0.4}};
  EXPECT_THAT(SurplusSteps(stored, 60, {.newest = 0}), IsEmpty());
  EXPECT_THAT(SurplusSteps(stored, 60, {.newest = 1, .best = 1}), ElementsAre(10, 30, 40, 50));
  EXPECT_THAT(SurplusSteps(stored, 60, {.newest = 2, .best = 2}), ElementsAre(10, 30));
  EXPECT_THAT(SurplusSteps(stored, 60, {.newest = 1, .best = 1, .higher_is_better = true}),
              ElementsAre(20, 30, 40, 50));
  // Without a limit on the best, all that have a score stay.
  EXPECT_THAT(SurplusSteps(stored, 60, {.newest = 1, .best = 0}), ElementsAre(30, 50));
  EXPECT_THAT(SurplusSteps(stored, 60, {.newest = 100}), IsEmpty());
}

TEST(FindSurplus, NeverHasTheOneCommittedNorLaterOnes) {
  const std::vector<StoredCheckpoint> stored = {{"", 10, {}}, {"", 20, {}}, {"", 30, {}}};
  EXPECT_THAT(SurplusSteps(stored, 20, {.newest = 1}), ElementsAre(10));
  EXPECT_THAT(SurplusSteps(stored, 10, {.newest = 1}), IsEmpty());
}

TEST(FindSurplus, PrefersTheNewerOfEqualScores) {
  const std::vector<StoredCheckpoint> stored = {{"", 10, 1}, {"", 20, 1}, {"", 30, 2}};
  EXPECT_THAT(SurplusSteps(stored, 30, {.newest = 1, .best = 1}), ElementsAre(10));
}

TEST(Crc32c, IsTheKnownOne) {
  // The check value of CRC-32C, and RFC 3720's 32 bytes of zeros.
  for (const auto& sum : {Crc32c, Crc32cByTable}) {
    EXPECT_EQ(sum("123456789", 0), 0xE3069283);
    EXPECT_EQ(sum(std::string(32, '\0'), 0), 0x8A9136AA);
    EXPECT_EQ(sum("", 0), 0);
  }
  std::string text;
  for (int64_t i = 0; i < 100'000; ++i) text += static_cast<char>(i * i % 251);
  EXPECT_EQ(Crc32c(text), Crc32cByTable(text));
  for (const size_t cut : {1, 7, 4096, 99'999}) {
    EXPECT_EQ(Crc32c(text.substr(cut), Crc32c(text.substr(0, cut))), Crc32c(text)) << cut;
  }
}

}  // namespace
}  // namespace ddprun::trainer
