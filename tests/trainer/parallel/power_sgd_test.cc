#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <optional>

#include <ddprun/comm_hook.h>
#include "tests/trainer/parallel/reducer_fixture.h"

namespace ddprun::trainer {
namespace {

constexpr int kRanks = 2;

at::Tensor GradientOf(int rank, int step) {
  return Random({24, 16}, static_cast<uint64_t>(rank * 100 + step));
}

// One bucket: a matrix that can be compressed and a vector that cannot.
struct Bucket {
  explicit Bucket(c10d::Backend& group, at::ScalarType type = at::kFloat) {
    bucket.flat = group.allocateTensor(24 * 16 + 5, type);
    bucket.last = true;
    matrix = bucket.flat.narrow(0, 0, 24 * 16).view({24, 16});
    vector = bucket.flat.narrow(0, 24 * 16, 5);
    bucket.gradients = {matrix, vector};
    bucket.parameters = {0, 1};
  }
  // Lets the hook average `gradient` and a vector of ranks; the bucket then has the result.
  void Reduce(CommHook& hook, c10d::Backend& group, const at::Tensor& gradient) {
    matrix.copy_(gradient);
    vector.fill_(group.getRank() + 1);
    hook.Start(bucket, group)();
  }
  GradientBucket bucket;
  at::Tensor matrix;
  at::Tensor vector;
};

TEST(PowerSgd, AveragesPlainlyBeforeItStarts) {
  WithGroup(kRanks, [](const auto& group, int rank) {
    const auto hook = MakePowerSgdHook({.rank = 1, .start_step = 1});
    Bucket bucket(*group);
    bucket.Reduce(*hook, *group, GradientOf(rank, 0));
    EXPECT_TRUE(at::equal(bucket.matrix, (GradientOf(0, 0) + GradientOf(1, 0)) / 2));
  });
}

TEST(PowerSgd, IsTheAverageAtFullRank) {
  WithGroup(kRanks, [](const auto& group, int rank) {
    const auto hook = MakePowerSgdHook({.rank = 16, .start_step = 0, .min_compression = 0});
    Bucket bucket(*group);
    for (int step = 0; step < 3; ++step) {
      bucket.Reduce(*hook, *group, GradientOf(rank, step));
      EXPECT_TRUE(
          at::allclose(bucket.matrix, (GradientOf(0, step) + GradientOf(1, step)) / 2, 1e-4, 1e-5));
      EXPECT_TRUE(at::equal(bucket.vector, at::full({5}, 1.5F)));
    }
  });
}

// A module may have parameters of 16-bit numbers, for which LAPACK has no functions.
TEST(PowerSgd, TakesGradientsOf16Bits) {
  WithGroup(kRanks, [](const auto& group, int rank) {
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      const auto hook = MakePowerSgdHook({.rank = 16, .start_step = 0, .min_compression = 0});
      Bucket bucket(*group, type);
      for (int step = 0; step < 3; ++step) {
        bucket.Reduce(*hook, *group, GradientOf(rank, step));
        const at::Tensor average = (GradientOf(0, step) + GradientOf(1, step)) / 2;
        const at::Tensor error = bucket.matrix.to(at::kFloat) - average;
        EXPECT_LT(error.norm().template item<double>(),
                  0.05 * average.norm().template item<double>());
      }
    }
  });
}

// Later steps add what a step left out, so that the sum of the results stays near the sum of the
// averages.
TEST(PowerSgd, LosesNothingOverManySteps) {
  WithGroup(kRanks, [](const auto& group, int rank) {
    const auto hook = MakePowerSgdHook({.rank = 2, .start_step = 0});
    Bucket bucket(*group);
    const at::Tensor gradient = GradientOf(rank, 0);
    const at::Tensor average = (GradientOf(0, 0) + GradientOf(1, 0)) / 2;
    at::Tensor sum = at::zeros({24, 16});
    constexpr int kSteps = 60;
    for (int step = 0; step < kSteps; ++step) {
      bucket.Reduce(*hook, *group, gradient);
      if (step == 0) {
        EXPECT_FALSE(at::allclose(bucket.matrix, average, 0.1, 0.1)) << "nothing was compressed";
      }
      sum += bucket.matrix;
    }
    const double error = (sum / kSteps - average).norm().template item<double>();
    EXPECT_LT(error, 0.15 * average.norm().template item<double>());
  });
}

// A parameter may change its bucket and its memory.
TEST(PowerSgd, KeepsWhatItLeftOutWhenBucketsAreLaidOutAnew) {
  WithGroup(kRanks, [](const auto& group, int rank) {
    const auto expected = MakePowerSgdHook({.rank = 2, .start_step = 0});
    const auto moved = MakePowerSgdHook({.rank = 2, .start_step = 0});
    Bucket bucket(*group);
    std::optional<Bucket> here;
    for (int step = 0; step < 6; ++step) {
      bucket.Reduce(*expected, *group, GradientOf(rank, step));
      if (step % 2 == 0) here.emplace(*group).bucket.index = static_cast<size_t>(step / 2 % 2);
      here->Reduce(*moved, *group, GradientOf(rank, step));
      EXPECT_TRUE(at::equal(here->matrix, bucket.matrix)) << "step " << step;
    }
  });
}

TEST(PowerSgd, GivesEveryRankTheSameBits) {
  WithGroup(kRanks, [](const auto& group, int rank) {
    const auto hook = MakePowerSgdHook({.rank = 2, .start_step = 0});
    Bucket bucket(*group);
    for (int step = 0; step < 5; ++step) {
      bucket.Reduce(*hook, *group, GradientOf(rank, step));
      at::Tensor own = bucket.matrix.clone().view({-1});
      at::Tensor all = at::zeros({kRanks * own.numel()});
      group->_allgather_base(all, own, {})->wait();
      EXPECT_TRUE(at::equal(all.narrow(0, 0, own.numel()), own));
    }
  });
}

}  // namespace
}  // namespace ddprun::trainer
