// Linear layers, attention and the loss of a last layer against LibTorch's own, in float64 where
// that says which of two float32 results is right.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/trainer/compute/largest_difference.h"
#include "trainer/compute/matmul.h"
#include "trainer/compute/operations.h"
#include "trainer/compute/precision.h"

namespace ddprun::trainer {
namespace {

using Tensors = std::vector<at::Tensor>;

double Size(const at::Tensor& a) {
  return a.to(at::kDouble).abs().max().item<double>();
}

// value, then the gradients of the sum of value * weights with regard to the inputs.
template <typename Function>
Tensors ValueAndGradients(const Function& function, const Tensors& inputs, at::ScalarType type) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.to(type).detach().clone().requires_grad_());
  }
  const at::Tensor value = function(leaves);
  at::manual_seed(3);
  const at::Tensor weights = at::rand(value.sizes());
  (value.to(type) * weights.to(type)).sum().backward();
  Tensors result = {value.detach()};
  for (const at::Tensor& leaf : leaves) result.push_back(leaf.grad());
  return result;
}

// The loss of a last layer, without and with the scores of all rows at once.
struct OwnLoss {
  at::Tensor targets;
  double smoothing = 0;
  at::Tensor operator()(const Tensors& in) const {
    return LinearCrossEntropy(in[0], in[1], targets, smoothing);
  }
};
struct WholeLoss {
  at::Tensor targets;
  double smoothing = 0;
  at::Tensor operator()(const Tensors& in) const {
    return at::cross_entropy_loss(at::linear(in[0], in[1]), targets, {}, at::Reduction::Mean, -100,
                                  smoothing);
  }
};

void ExpectClose(const Tensors& found, const Tensors& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].sizes(), expected[i].sizes()) << i;
    EXPECT_LE(LargestDifference(found[i], expected[i]), tolerance * Size(expected[i])) << i;
  }
}

// The engine is the process's: put back after every test.
class Products : public testing::TestWithParam<MatmulEngine> {
 protected:
  void SetUp() override {
    at::manual_seed(11);
    UseMatmulEngine(GetParam());
  }
  void TearDown() override { UseMatmulEngine(MatmulEngine::kDefault); }
};

TEST_P(Products, LinearLayerEqualsLibTorchsInValueAndGradients) {
  const Tensors inputs = {at::randn({3, 100, 200}), at::randn({300, 200}), at::randn({300})};
  const auto own = ValueAndGradients(
      [](const Tensors& in) { return LinearLayer(in[0], in[1], in[2]); }, inputs, at::kFloat);
  const auto exact = ValueAndGradients(
      [](const Tensors& in) { return at::linear(in[0], in[1], in[2]); }, inputs, at::kDouble);
  ExpectClose(own, exact, 2e-6);
}

TEST_P(Products, LinearLayerTakesWeightsStoredInByOutAndNoBias) {
  const Tensors inputs = {at::randn({256, 300}), at::randn({300, 200})};
  const auto own = ValueAndGradients(
      [](const Tensors& in) { return LinearLayer(in[0], in[1], {}, WeightLayout::kInOut); }, inputs,
      at::kFloat);
  const auto exact = ValueAndGradients([](const Tensors& in) { return at::matmul(in[0], in[1]); },
                                       inputs, at::kDouble);
  ExpectClose(own, exact, 2e-6);
}

TEST_P(Products, MultiplyAddsToWhatIsThere) {
  const at::Tensor a = at::randn({256, 300});
  const at::Tensor b = at::randn({300, 256});
  at::Tensor out = at::ones({256, 256});
  Multiply(a, b, out, /*accumulate=*/true);
  const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble)) + 1;
  EXPECT_LE(LargestDifference(out, exact), 2e-6 * Size(exact));
}

TEST_P(Products, LossOfTheLastLayerEqualsLinearAndCrossEntropy) {
  const at::Tensor targets = at::randint(0, 700, {500});
  targets[7] = -100;
  const Tensors inputs = {at::randn({500, 96}), at::randn({700, 96})};
  for (const double smoothing : {0.0, 0.1, 0.9}) {
    const auto own = ValueAndGradients(OwnLoss{targets, smoothing}, inputs, at::kFloat);
    ExpectClose(own, ValueAndGradients(WholeLoss{targets, smoothing}, inputs, at::kDouble), 5e-6);
    const auto exact = ValueAndGradients(OwnLoss{targets, smoothing}, inputs, at::kDouble);
    ExpectClose(exact, ValueAndGradients(WholeLoss{targets, smoothing}, inputs, at::kDouble),
                1e-12);
  }
}

std::vector<MatmulEngine> EnginesHere() {
  std::vector<MatmulEngine> engines = {MatmulEngine::kDefault};
  if (HasOneDnn()) engines.push_back(MatmulEngine::kOneDnn);
  return engines;
}

INSTANTIATE_TEST_SUITE_P(Engines,
                         Products,
                         testing::ValuesIn(EnginesHere()),
                         [](const auto& engine) {
                           return std::string(MatmulEngineName(engine.param));
                         });

TEST(MatmulEngine, ThisLibTorchHasOneDnnWhereTheProcessorHasAvx512) {
  std::ifstream file("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto has = [&](const char* flag) { return text.find(flag) != std::string::npos; };
  EXPECT_EQ(HasOneDnn(),
            has("avx_ne_convert") || (has("avx512bw") && has("avx512dq") && has("avx512vl")));
}

TEST(LinearCrossEntropy, WorksThroughManyPiecesOfALargeVocabulary) {
  at::manual_seed(5);
  // 32 MiB hold 167 rows of 50257 scores.
  const at::Tensor targets = at::randint(0, 50257, {400});
  const Tensors inputs = {at::randn({400, 8}), at::randn({50257, 8})};
  // Both are up to 5e-5 of the largest gradient away from float64's.
  for (const double smoothing : {0.0, 0.1}) {
    const auto own = ValueAndGradients(OwnLoss{targets, smoothing}, inputs, at::kFloat);
    ExpectClose(own, ValueAndGradients(WholeLoss{targets, smoothing}, inputs, at::kFloat), 1e-4);
  }
}

TEST(LinearCrossEntropy, HasNoGradientToKeepWithoutAGraph) {
  const at::NoGradGuard no_grad;
  const at::Tensor hidden = at::ones({4, 8});
  const at::Tensor weight = at::ones({5, 8}).requires_grad_();
  const at::Tensor loss = LinearCrossEntropy(hidden, weight, at::zeros({4}, at::kLong));
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_NEAR(loss.item<double>(), std::log(5.0), 1e-6);
}

TEST(LinearCrossEntropy, HasTheSameGradientsBesideAFrozenWeight) {
  const at::Tensor weight = at::randn({5, 3});
  const auto gradient = [&](bool trained) {
    const at::Tensor hidden = at::arange(12, at::kFloat).view({4, 3}).requires_grad_();
    weight.set_requires_grad(trained);
    LinearCrossEntropy(hidden, weight, at::arange(4)).backward();
    EXPECT_EQ(weight.grad().defined(), trained);
    return hidden.grad();
  };
  const at::Tensor expected = gradient(true);
  weight.mutable_grad().reset();
  EXPECT_TRUE(gradient(false).equal(expected));
}

TEST(LinearCrossEntropy, IsZeroWithoutAnyTargetThatCounts) {
  const at::Tensor hidden = at::randn({4, 8}).requires_grad_();
  const at::Tensor weight = at::randn({5, 8}).requires_grad_();
  const at::Tensor loss = LinearCrossEntropy(hidden, weight, at::full({4}, -100, at::kLong));
  loss.backward();
  EXPECT_EQ(loss.item<double>(), 0.0);
  EXPECT_EQ(Size(hidden.grad()), 0.0);
  EXPECT_EQ(Size(weight.grad()), 0.0);
}

TEST(LinearCrossEntropy, RefusesATargetOutsideTheVocabulary) {
  const at::Tensor targets = at::full({4}, 5, at::kLong);
  EXPECT_THROW(LinearCrossEntropy(at::randn({4, 8}), at::randn({5, 8}), targets), c10::IndexError);
}

TEST(LinearCrossEntropy, RefusesASecondBackward) {
  const at::Tensor hidden = at::randn({4, 8}).requires_grad_();
  const at::Tensor loss = LinearCrossEntropy(hidden, at::randn({5, 8}), at::zeros({4}, at::kLong));
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(Bf16, LinearLayerGivesAutocastsNumbers) {
  at::manual_seed(7);
  const Tensors inputs = {at::randn({64, 80}), at::randn({48, 80}), at::randn({48})};
  const auto in_scope = [&](const auto& function) {
    return ValueAndGradients(
        [&](const Tensors& in) {
          const PrecisionScope scope(Precision::kBf16);
          const AutocastScope autocast(at::kCPU);
          return function(in);
        },
        inputs, at::kFloat);
  };
  const auto own = in_scope([](const Tensors& in) { return LinearLayer(in[0], in[1], in[2]); });
  const auto autocast = in_scope([](const Tensors& in) { return at::linear(in[0], in[1], in[2]); });
  EXPECT_EQ(own[0].scalar_type(), at::kBFloat16);
  for (size_t i = 1; i < own.size(); ++i) EXPECT_EQ(own[i].scalar_type(), at::kFloat) << i;
  ExpectClose(own, autocast, 1e-2);
  const auto exact = ValueAndGradients(
      [](const Tensors& in) { return at::linear(in[0], in[1], in[2]); }, inputs, at::kDouble);
  ExpectClose(own, exact, 1.5e-2);
}

TEST(Bf16, LossOfTheLastLayerIsCloseToFloat32) {
  at::manual_seed(7);
  const at::Tensor targets = at::randint(0, 300, {64});
  const Tensors inputs = {at::randn({64, 80}), 0.1 * at::randn({300, 80})};
  for (const double smoothing : {0.0, 0.1}) {
    const auto own = ValueAndGradients(
        [&](const Tensors& in) {
          const PrecisionScope scope(Precision::kBf16);
          return OwnLoss{targets, smoothing}(in);
        },
        inputs, at::kFloat);
    EXPECT_EQ(own[0].scalar_type(), at::kFloat);
    ExpectClose(own, ValueAndGradients(WholeLoss{targets, smoothing}, inputs, at::kDouble), 1e-2);
  }
}

TEST(Bf16, EndsWithItsScope) {
  EXPECT_EQ(ComputeType(), at::kFloat);
  {
    const PrecisionScope scope(Precision::kBf16);
    EXPECT_EQ(ComputeType(), at::kBFloat16);
    const AutocastScope autocast(at::kCPU);
    EXPECT_EQ(at::mm(at::ones({2, 2}), at::ones({2, 2})).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(ComputeType(), at::kFloat);
  EXPECT_EQ(at::mm(at::ones({2, 2}), at::ones({2, 2})).scalar_type(), at::kFloat);
}

Tensors AttentionTensors() {
  at::manual_seed(9);
  return {at::randn({2, 3, 17, 8}), at::randn({2, 3, 17, 8}), at::randn({2, 3, 17, 8})};
}

TEST(Attention, WithItsProbabilitiesKeptEqualsTheFusedKernel) {
  const Tensors inputs = AttentionTensors();
  for (const bool causal : {false, true}) {
    const auto own = ValueAndGradients(
        [&](const Tensors& in) {
          const PrecisionScope scope(Precision::kBf16);
          return ScaledDotProduct(
              {.queries = in[0], .keys = in[1], .values = in[2], .mask = {}, .causal = causal});
        },
        inputs, at::kFloat);
    const auto exact = ValueAndGradients(
        [&](const Tensors& in) {
          return at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, causal);
        },
        inputs, at::kDouble);
    ExpectClose(own, exact, 2e-2);
  }
}

TEST(Attention, WithDropoutIsRightOnAverage) {
  const Tensors in = AttentionTensors();
  const at::Tensor mask = at::ones({2, 1, 1, 17}, at::kBool);
  mask[0].narrow(-1, 12, 5).fill_(false);
  at::Tensor sum = at::zeros_like(in[0]);
  constexpr int kRounds = 2000;
  for (int i = 0; i < kRounds; ++i) {
    sum += ScaledDotProduct(
        {.queries = in[0], .keys = in[1], .values = in[2], .mask = mask, .dropout = 0.2});
  }
  const at::Tensor expected = at::scaled_dot_product_attention(in[0], in[1], in[2], mask);
  EXPECT_LE(LargestDifference(sum / kRounds, expected), 0.08);
}

}  // namespace
}  // namespace ddprun::trainer
