// The norm of gradients: the right one, and the same bits however they are reduced.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/strategies/strategy_fixture.h"
#include "trainer/compute/norm.h"
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun::trainer {
namespace {

using Sizes = std::vector<std::vector<int64_t>>;

const Sizes kSmall = {{700, 600}, {600}, {600, 120}, {120}, {120, 7}, {1}};  // 0.5 million
const Sizes kLarge = {{4700, 4099}, {4099}, {999, 700}, {5, 3, 7}};          // 20 million

struct Net {
  explicit Net(const Sizes& sizes, const std::vector<at::Tensor>& drawn = {}) : gradients(drawn) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const at::Tensor weight = at::zeros(sizes[i]).set_requires_grad(true);
      weights.push_back({"weight" + std::to_string(i), weight});
      // On every rank the same: then so is their average over two or four of them.
      if (drawn.empty()) gradients.push_back(Random(sizes[i], 20 + i).mul_(1e-3));
    }
  }
  double Reference() const {
    double sum = 0;
    for (const at::Tensor& one : gradients)
      sum += one.to(at::kDouble).square().sum().item<double>();
    return std::sqrt(sum);
  }
  at::Tensor Loss() const {
    at::Tensor loss = at::zeros({});
    for (size_t i = 0; i < weights.size(); ++i) {
      loss = loss + (weights[i].tensor * gradients[i]).sum();
    }
    return loss;
  }

  std::vector<NamedParameter> weights;
  std::vector<at::Tensor> gradients;
};

// After each of `steps` steps, which have the same gradients.
std::vector<double> Norms(Strategy& strategy, const Net& net, int steps) {
  std::vector<double> norms;
  for (int step = 0; step < steps; ++step) {
    Backward(strategy, [&](size_t) { return net.Loss(); });
    norms.push_back(strategy.GradientNorm());
  }
  return norms;
}

void ExpectTheNormOfOneProcess(const Sizes& sizes, const Reducer::Options& options, int steps) {
  const Net net(sizes);
  const auto single = SingleOf(net.weights);
  const double expected = Norms(*single, net, 1).front();
  EXPECT_NEAR(expected / net.Reference(), 1, 1e-7);
  for (const int ranks : {1, 2, 4}) {
    WithGroup(ranks, [&](const auto& group, int) {
      const Net own(sizes, net.gradients);
      const auto strategy = DataParallelOf(own.weights, group, {.sync = {.reducer = options}});
      EXPECT_EQ(Norms(*strategy, own, steps), std::vector<double>(steps, expected))
          << ranks << " ranks, buckets of " << options.limits.cap_bytes;
    });
  }
}

TEST(GradientNorm, HasTheBitsOfOneProcessForAnyRanksAndBuckets) {
  for (const int64_t bytes : {1, 5000, 1 << 20, 1 << 30}) {
    // In the second step buckets are laid out in the order in which gradients come.
    ExpectTheNormOfOneProcess(kSmall, {.limits = {.first_bytes = bytes, .cap_bytes = bytes}}, 2);
  }
}

TEST(GradientNorm, StaysWhileBucketSizesAreTried) {
  ExpectTheNormOfOneProcess(kSmall, {.tune_limits = true}, 20);
}

TEST(GradientNorm, IsRightForMillionsOfGradients) {
  ExpectTheNormOfOneProcess(kLarge, {}, 1);
}

TEST(GradientNorm, IsThatFromBeforeClipping) {
  const Net net(kSmall);
  const auto single = SingleOf(net.weights);
  const double norm = Norms(*single, net, 1).front();
  WithGroup(2, [&](const auto& group, int) {
    const Net own(kSmall);
    const auto strategy = DataParallelOf(own.weights, group);
    EXPECT_EQ(Norms(*strategy, own, 1).front(), norm);
    EXPECT_EQ(strategy->ClipGradients(0.25), norm);
    EXPECT_NEAR(strategy->GradientNorm(), 0.25 * norm / (norm + 1e-6), 1e-7);
    EXPECT_NEAR(strategy->ClipGradients(1.0), 0.25, 1e-6);
    EXPECT_NEAR(strategy->GradientNorm(), 0.25, 1e-6);
  });
}

TEST(GradientNorm, IsOverAllPartsOfAModelThatRanksShareOut) {
  for (const MeshSizes& shape :
       {MeshSizes{.tensor = 4}, {.tensor = 2}, {.pipeline = 4}, {.tensor = 2, .pipeline = 2}}) {
    WithGroup(4, [&](const auto& group, int) {
      const Mesh mesh = MakeMesh(group, shape);
      const at::Tensor own = at::full({5000}, 1.0 + mesh.tensor.rank + 4 * mesh.pipeline.rank);
      double squares = 0;
      for (int i = 0; i < shape.tensor * shape.pipeline; ++i) {
        squares += 5000 * std::pow(1 + i % shape.tensor + 4 * (i / shape.tensor), 2);
      }
      EXPECT_EQ(double(NormOverModel(SquaresOf({{own}}), mesh)), std::sqrt(squares));
      EXPECT_EQ(double(NormOverModel(SquaresOf({}), mesh)), 0);
    });
  }
}

TEST(GradientNorm, NeedsNoCommunicationForAModelOfOneRank) {
  const at::Tensor own = Random({10000}, 1);
  EXPECT_EQ(double(NormOverModel(SquaresOf({{own}}), {})), std::sqrt(SquaresOf({{own}})));
}

}  // namespace
}  // namespace ddprun::trainer
