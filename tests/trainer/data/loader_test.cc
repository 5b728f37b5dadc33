#include "trainer/data/loader.h"

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <latch>
#include <numeric>
#include <stdexcept>

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Inputs are the indices. Counts its batches; fails at one index; may hold its threads up.
class FakeDataset : public Dataset {
 public:
  int64_t size() const override { return 100; }
  bool in_memory() const override { return in_memory_; }

  Batch Get(std::span<const int64_t> indices) const override {
    last_thread = std::this_thread::get_id();
    const int made_before = made.fetch_add(1);
    if (indices.front() == wait_at) go_on.wait();
    if (std::count(indices.begin(), indices.end(), fail_at) > 0) {
      throw std::runtime_error("row 5 is broken");
    }
    at::Tensor inputs = at::empty({static_cast<int64_t>(indices.size())}, at::kLong);
    std::copy(indices.begin(), indices.end(), inputs.mutable_data_ptr<int64_t>());
    if (made_before + 1 == announce_at) announced.count_down();
    const int64_t count = inputs.size(0);
    return {.inputs = inputs, .targets = inputs, .samples = count, .predictions = count};
  }

  bool in_memory_ = false;
  int64_t fail_at = -1;
  int announce_at = -1;
  int64_t wait_at = -1;
  mutable std::latch announced{1};
  mutable std::latch go_on{1};
  mutable std::atomic<int> made = 0;
  mutable std::atomic<std::thread::id> last_thread;
};

std::vector<int64_t> Numbers(int64_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<int64_t> Values(const Batch& batch) {
  const auto* data = batch.inputs.const_data_ptr<int64_t>();
  return {data, data + batch.inputs.numel()};
}

std::vector<std::vector<int64_t>> All(Loader& loader) {
  std::vector<std::vector<int64_t>> batches;
  while (const auto batch = loader.Next()) batches.push_back(Values(*batch));
  return batches;
}

TEST(Loader, GivesEveryBatchInOrderWithASmallerLastOne) {
  for (const int64_t prefetch : {0, 1, 2, 5}) {
    for (const int64_t threads : {1, 2, 4}) {
      const FakeDataset dataset;
      Loader loader(dataset, {9, 8, 7, 6, 5},
                    {.batch_size = 2, .prefetch = prefetch, .threads = threads});
      EXPECT_EQ(loader.batches(), 3);
      EXPECT_THAT(All(loader), ElementsAre(ElementsAre(9, 8), ElementsAre(7, 6), ElementsAre(5)));
      EXPECT_FALSE(loader.Next().has_value());
    }
  }
}

TEST(Loader, LeavesTheSmallerLastBatchOutWithDropLast) {
  const FakeDataset dataset;
  Loader loader(dataset, Numbers(5), {.batch_size = 2, .drop_last = true});
  EXPECT_EQ(loader.batches(), 2);
  EXPECT_THAT(All(loader), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(Loader, TakesBatchesOfSeveralRanksInTurn) {
  for (const int64_t prefetch : {0, 2}) {
    const FakeDataset dataset;
    Loader loader(dataset, {0, 1, 2, 3, 10, 11, 12, 13},
                  {.batch_size = 2, .prefetch = prefetch, .taken = 1, .ranks = 2});
    EXPECT_EQ(loader.batches(), 2);
    EXPECT_THAT(Values(*loader.Next()), ElementsAre(1, 2));
    EXPECT_EQ(loader.taken(), 1);  // of both
    EXPECT_THAT(All(loader), ElementsAre(ElementsAre(11, 12), ElementsAre(3), ElementsAre(13)));
    EXPECT_EQ(loader.taken(), 4);
  }
}

TEST(Loader, GivesNothingForNoIndices) {
  const FakeDataset dataset;
  Loader loader(dataset, {}, {});
  EXPECT_THAT(All(loader), IsEmpty());
}

TEST(Loader, PreparesBatchesAheadButNotMoreThanAskedFor) {
  FakeDataset dataset;
  dataset.announce_at = 3;
  Loader loader(dataset, Numbers(20), {.batch_size = 1, .prefetch = 2});
  ASSERT_TRUE(loader.Next().has_value());
  dataset.announced.wait();  // one taken, two ready
  EXPECT_EQ(dataset.made, 3);
  EXPECT_NE(dataset.last_thread.load(), std::this_thread::get_id());
}

TEST(Loader, StartsNoThreadBeforeTheFirstBatchIsAskedFor) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const auto before = threads();
  const FakeDataset dataset;
  const Loader loader(dataset, Numbers(4), {.batch_size = 1});
  EXPECT_EQ(threads(), before);
}

TEST(Loader, MakesBatchesOfDataInMemoryOnTheCallersThread) {
  FakeDataset dataset;
  dataset.in_memory_ = true;
  Loader loader(dataset, Numbers(4), {.batch_size = 1});
  ASSERT_TRUE(loader.Next().has_value());
  EXPECT_EQ(dataset.made, 1);
  EXPECT_EQ(dataset.last_thread.load(), std::this_thread::get_id());
}

TEST(Loader, ThrowsTheDataSetsErrorAtTheBatchConcerned) {
  for (const int64_t prefetch : {0, 2, 6}) {
    FakeDataset dataset;
    dataset.fail_at = 5;
    Loader loader(
        dataset, Numbers(20),
        {.batch_size = 2, .prefetch = prefetch, .threads = std::max<int64_t>(1, prefetch / 2)});
    EXPECT_THAT(Values(*loader.Next()), ElementsAre(0, 1));
    EXPECT_THAT(Values(*loader.Next()), ElementsAre(2, 3));
    EXPECT_THROW(loader.Next(), std::runtime_error);
    EXPECT_FALSE(loader.Next().has_value());
  }
}

TEST(Loader, StopsInTheMiddle) {
  const FakeDataset dataset;
  {
    Loader loader(dataset, Numbers(100), {.batch_size = 1});
    ASSERT_TRUE(loader.Next().has_value());
  }
  EXPECT_LT(dataset.made, 100);
}

TEST(Loader, KeepsTheOrderWhenALaterBatchIsReadyFirst) {
  FakeDataset dataset;
  dataset.wait_at = 0;
  dataset.announce_at = 3;
  Loader loader(dataset, Numbers(6), {.batch_size = 1, .prefetch = 4, .threads = 2});
  std::thread release([&] {
    dataset.announced.wait();  // one thread waits at index 0, the other has made two batches
    dataset.go_on.count_down();
  });
  const auto batches = All(loader);
  release.join();
  ASSERT_EQ(batches.size(), 6);
  for (int64_t i = 0; i < 6; ++i) EXPECT_THAT(batches[i], ElementsAre(i));
}

TEST(Loader, AsksForTheEpochsOwnVariantsOnlyWithAnEpoch) {
  class Varied final : public FakeDataset {
   public:
    Batch GetVaried(std::span<const int64_t> indices, int64_t epoch) const override {
      const std::vector<int64_t> changed(indices.size(), epoch);
      return Get(changed);
    }
  };
  const Varied dataset;
  Loader training(dataset, Numbers(2), {.batch_size = 2, .epoch = 7});
  EXPECT_THAT(All(training), ElementsAre(ElementsAre(7, 7)));
  Loader validation(dataset, Numbers(2), {.batch_size = 2});
  EXPECT_THAT(All(validation), ElementsAre(ElementsAre(0, 1)));
}

}  // namespace
}  // namespace ddprun::trainer
