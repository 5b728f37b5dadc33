// Compares an epoch that is resumed in its middle with an epoch without interruption.
#pragma once

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ddprun/sampler.h>
#include "trainer/data/loader.h"

namespace ddprun::trainer {

inline constexpr int64_t kBatch = 4;
inline constexpr int64_t kEpoch = 3;

// A process's data, opened anew each time.
struct Opened {
  std::unique_ptr<Dataset> data;
  std::vector<int64_t> lengths;
};

class ResumeCheck : public testing::Test {
 protected:
  using Open = std::function<std::unique_ptr<Dataset>()>;

  static Opened Start(const Open& open, bool grouped) {
    Opened run{.data = open(), .lengths = {}};
    if (grouped) run.lengths = run.data->Lengths();
    return run;
  }
  static DistributedSamplerOptions SamplerOptions(const Opened& run, int64_t ranks, int64_t rank) {
    return {.dataset_size = run.data->size(),
            .num_replicas = ranks,
            .rank = rank,
            .seed = 5,
            .global_batch = 24,  // divisible by all numbers of ranks below
            .lengths = run.lengths,
            .group_size = 24};
  }
  static void ExpectSame(const Batch& a, const Batch& b) {
    const auto same = [](const at::Tensor& x, const at::Tensor& y) {
      return x.defined() == y.defined() && (!x.defined() || at::equal(x, y));
    };
    EXPECT_TRUE(same(a.inputs, b.inputs));
    EXPECT_TRUE(same(a.targets, b.targets));
    EXPECT_TRUE(same(a.attention_mask, b.attention_mask));
    EXPECT_TRUE(same(a.token_type_ids, b.token_type_ids));
    EXPECT_EQ(a.samples, b.samples);
    EXPECT_EQ(a.predictions, b.predictions);
  }

  // Reads an epoch as rank 1 of 2. Then reads up to each of some batches, from which another
  // process continues with other numbers of threads.
  static void ExpectExact(const Open& open, bool grouped = false) {
    const Opened whole = Start(open, grouped);
    DistributedSampler sampler(SamplerOptions(whole, 2, 1));
    sampler.set_epoch(kEpoch);
    const LoaderOptions plain{.batch_size = kBatch, .prefetch = 0, .epoch = kEpoch};
    Loader loader(*whole.data, sampler.Indices(), plain);
    std::vector<Batch> expected;
    while (auto batch = loader.Next()) expected.push_back(*std::move(batch));
    ASSERT_GE(expected.size(), 4);
    for (const size_t stop : {size_t{0}, size_t{1}, expected.size() - 1, expected.size()}) {
      SCOPED_TRACE(stop);
      const SamplerState state = Interrupted(open, grouped, expected, stop);
      const Opened again = Start(open, grouped);
      DistributedSampler restored(SamplerOptions(again, 2, 1));
      restored.Restore(state);
      Loader rest(*again.data, restored.Indices(),
                  {.batch_size = kBatch,
                   .prefetch = 5,
                   .threads = 3,
                   .epoch = restored.epoch(),
                   .taken = restored.taken()});
      for (size_t i = stop; i < expected.size(); ++i) ExpectSame(*rest.Next(), expected[i]);
      EXPECT_FALSE(rest.Next().has_value());
    }
  }

  // Takes `stop` batches while threads prepare more.
  static SamplerState Interrupted(const Open& open,
                                  bool grouped,
                                  const std::vector<Batch>& expected,
                                  size_t stop) {
    const Opened run = Start(open, grouped);
    DistributedSampler sampler(SamplerOptions(run, 2, 1));
    sampler.set_epoch(kEpoch);
    Loader loader(*run.data, sampler.Indices(),
                  {.batch_size = kBatch, .prefetch = 3, .threads = 2, .epoch = kEpoch});
    for (size_t i = 0; i < stop; ++i) ExpectSame(*loader.Next(), expected[i]);
    EXPECT_EQ(loader.taken(), static_cast<int64_t>(stop) * kBatch);
    return sampler.state(loader.taken());
  }
};

}  // namespace ddprun::trainer
