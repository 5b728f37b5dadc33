#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include <ddprun/sampler.h>
#include "base/failure.h"
#include "tests/golden/golden_file.h"

namespace ddprun::trainer {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

DistributedSamplerOptions OptionsOf(const json& golden_case, int64_t rank, uint64_t seed) {
  return {.dataset_size = golden_case.at("size"),
          .num_replicas = golden_case.at("replicas"),
          .rank = rank,
          .shuffle = golden_case.at("shuffle"),
          .seed = seed,
          .drop_last = golden_case.at("drop_last")};
}

std::vector<int64_t> IndicesOf(const DistributedSamplerOptions& options, int64_t epoch) {
  DistributedSampler sampler(options);
  sampler.set_epoch(epoch);
  return sampler.Indices();
}

TEST(DistributedSampler, EqualsPyTorchIndexForIndex) {
  const json golden = golden::Read("sampler.json");
  ASSERT_GE(golden.at("cases").size(), 100);
  for (const json& golden_case : golden.at("cases")) {
    const auto ranks = golden_case.at("ranks").get<std::vector<std::vector<int64_t>>>();
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const auto options =
          OptionsOf(golden_case, static_cast<int64_t>(rank), golden.at("seed").get<uint64_t>());
      EXPECT_THAT(IndicesOf(options, golden_case.at("epoch")), ElementsAreArray(ranks[rank]))
          << "size " << options.dataset_size << ", rank " << rank << " of " << options.num_replicas
          << ", drop_last " << options.drop_last;
    }
  }
}

TEST(DistributedSampler, EqualsPyTorchOnALargeDataSet) {
  const json golden = golden::Read("sampler.json");
  const json& large = golden.at("large");
  for (int64_t rank = 0; rank < 2; ++rank) {
    const auto indices =
        IndicesOf(OptionsOf(large, rank, golden.at("seed").get<uint64_t>()), large.at("epoch"));
    const auto head = large.at("ranks").at(rank).get<std::vector<int64_t>>();
    EXPECT_TRUE(std::equal(head.begin(), head.end(), indices.begin()));
    int64_t checksum = 0;
    for (size_t i = 0; i < indices.size(); ++i) {
      checksum = (checksum + static_cast<int64_t>(i + 1) * indices[i]) % (int64_t{1} << 31);
    }
    EXPECT_EQ(checksum, large.at("checksums").at(rank).get<int64_t>());
  }
}

TEST(DistributedSampler, CountsEverySampleOnceWithoutPadding) {
  for (const int64_t size : {1, 2, 5, 7, 8, 9, 100}) {
    for (const int64_t replicas : {1, 2, 3, 8, 200}) {
      std::map<int64_t, int> visits;
      for (int64_t rank = 0; rank < replicas; ++rank) {
        const DistributedSampler sampler(
            {.dataset_size = size, .num_replicas = replicas, .rank = rank, .seed = 5});
        for (const int64_t index : sampler.IndicesWithoutPadding()) ++visits[index];
      }
      EXPECT_EQ(static_cast<int64_t>(visits.size()), size) << replicas << " replicas";
      for (const auto& [index, count] : visits) EXPECT_EQ(count, 1) << "sample " << index;
    }
  }
}

TEST(DistributedSampler, GivesAnotherOrderInAnotherEpochAndTheSameInTheSame) {
  const DistributedSamplerOptions options{.dataset_size = 50, .seed = 1};
  EXPECT_EQ(IndicesOf(options, 2), IndicesOf(options, 2));
  EXPECT_NE(IndicesOf(options, 2), IndicesOf(options, 3));
}

TEST(DistributedSampler, RefusesARankThatDoesNotExist) {
  EXPECT_THROW(DistributedSampler({.dataset_size = 8, .num_replicas = 2, .rank = 2}), Failure);
  EXPECT_THROW(DistributedSampler({.dataset_size = 8, .num_replicas = 2, .rank = -1}), Failure);
}

TEST(SelectShare, WrapsTheListAroundAsOftenAsNeeded) {
  const std::vector<int64_t> order = {30, 10};
  EXPECT_THAT(SelectShare(order, {.dataset_size = 2, .num_replicas = 5, .rank = 4}),
              ElementsAre(30));
  EXPECT_THAT(SelectShare(order, {.dataset_size = 2, .num_replicas = 5, .rank = 3}),
              ElementsAre(10));
}

TEST(SelectShare, LeavesTheTailOutWithDropLast) {
  const std::vector<int64_t> order = {4, 3, 2, 1, 0};
  EXPECT_THAT(
      SelectShare(order, {.dataset_size = 5, .num_replicas = 2, .rank = 1, .drop_last = true}),
      ElementsAre(3, 1));
}

TEST(SelectShare, GivesNothingOfAnEmptyDataSet) {
  EXPECT_THAT(SelectShare({}, {.dataset_size = 0, .num_replicas = 2, .rank = 1}), IsEmpty());
}

TEST(DistributedSampler, GroupsByLengthAsTransformersDoes) {
  const json golden = golden::Read("length_groups.json");
  for (const json& golden_case : golden.at("cases")) {
    const auto lengths = golden_case.at("lengths").get<std::vector<int64_t>>();
    const auto ranks = golden_case.at("ranks").get<std::vector<std::vector<int64_t>>>();
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const DistributedSamplerOptions options{.dataset_size = static_cast<int64_t>(lengths.size()),
                                              .num_replicas = golden_case.at("replicas"),
                                              .rank = static_cast<int64_t>(rank),
                                              .seed = golden.at("seed").get<uint64_t>(),
                                              .drop_last = golden_case.at("drop_last"),
                                              .lengths = lengths,
                                              .group_size = golden_case.at("batch")};
      EXPECT_THAT(IndicesOf(options, golden_case.at("epoch")), ElementsAreArray(ranks[rank]));
    }
  }
}

// The samples of each step, over all ranks.
std::vector<std::multiset<int64_t>> Steps(DistributedSamplerOptions options, int64_t replicas) {
  std::vector<std::multiset<int64_t>> steps;
  options.num_replicas = replicas;
  for (options.rank = 0; options.rank < replicas; ++options.rank) {
    const std::vector<int64_t> indices = DistributedSampler(options).Indices();
    const size_t batch = options.global_batch / replicas;
    steps.resize(indices.size() / batch);
    for (size_t i = 0; i < indices.size(); ++i) steps.at(i / batch).insert(indices[i]);
  }
  return steps;
}

TEST(DistributedSampler, TakesTheSameSamplesInEachStepWhateverTheNumberOfRanks) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 53; ++i) lengths.push_back(i * 31 % 17);
  for (const bool drop_last : {false, true}) {
    for (const bool grouped : {false, true}) {
      DistributedSamplerOptions options{
          .dataset_size = 53, .seed = 3, .drop_last = drop_last, .global_batch = 12};
      options.group_size = 12;
      if (grouped) options.lengths = lengths;
      const auto one = Steps(options, 1);
      EXPECT_EQ(one.size(), drop_last ? 4 : 5);
      for (const int64_t replicas : {2, 3, 4, 6}) EXPECT_EQ(Steps(options, replicas), one);
    }
  }
}

TEST(DistributedSampler, RefusesAGlobalBatchThatItsRanksDoNotDivide) {
  EXPECT_THROW(
      DistributedSampler({.dataset_size = 9, .num_replicas = 2, .rank = 0, .global_batch = 5}),
      Failure);
}

TEST(DistributedSampler, GoesOnWhereItWasSavedAlsoWithOtherRanks) {
  DistributedSamplerOptions options{.dataset_size = 50, .num_replicas = 2, .global_batch = 8};
  DistributedSampler before(options);
  before.set_epoch(5);
  const SamplerState state = before.state(12);  // three steps of four
  EXPECT_EQ(state.samples, 24);

  options.num_replicas = 4;
  std::multiset<int64_t> rest;
  std::multiset<int64_t> expected;
  for (options.rank = 0; options.rank < 4; ++options.rank) {
    DistributedSampler after(options);
    after.Restore(state);
    EXPECT_EQ(after.epoch(), 5);
    const std::vector<int64_t> indices = after.Indices();
    rest.insert(indices.begin() + after.taken(), indices.end());
  }
  options.num_replicas = 2;
  for (options.rank = 0; options.rank < 2; ++options.rank) {
    const std::vector<int64_t> indices = IndicesOf(options, 5);
    expected.insert(indices.begin() + 12, indices.end());
  }
  EXPECT_EQ(rest, expected);
  EXPECT_EQ(rest.size(), 56 - 24);
}

TEST(DistributedSampler, RefusesAPositionOfOtherData) {
  const DistributedSampler saved({.dataset_size = 10, .seed = 1});
  DistributedSampler larger({.dataset_size = 11, .seed = 1});
  EXPECT_THROW(larger.Restore(saved.state(4)), Failure);
  DistributedSampler other_seed({.dataset_size = 10, .seed = 2});
  EXPECT_THROW(other_seed.Restore(saved.state(4)), Failure);
  DistributedSampler ranks({.dataset_size = 10, .num_replicas = 3, .seed = 1});
  EXPECT_THROW(ranks.Restore(saved.state(4)), Failure);
}

}  // namespace
}  // namespace ddprun::trainer
