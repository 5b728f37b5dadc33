#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/trainer/compute/largest_difference.h"
#include "trainer/compute/operations.h"

namespace ddprun::trainer {
namespace {

TEST(Dropout, DropsTheShareThatItIsAskedForAndScalesTheRest) {
  at::manual_seed(1);
  constexpr int64_t kCount = 1 << 20;
  for (const double p : {0.1, 0.5, 0.9}) {
    const at::Tensor y = DropElements(at::ones({kCount}), p);
    const double dropped = static_cast<double>((y == 0).sum().item<int64_t>()) / kCount;
    EXPECT_NEAR(dropped, p, 5 * std::sqrt(p * (1 - p) / kCount)) << p;
    EXPECT_NEAR(y.max().item<double>(), 1 / (1 - p), 1e-6 / (1 - p));
  }
}

TEST(Dropout, DropsNeighboursIndependently) {
  at::manual_seed(2);
  const at::Tensor kept = (DropElements(at::ones({1024, 1024}), 0.5) != 0).to(at::kDouble) - 0.5;
  for (const int64_t lag : {1, 2, 16, 1024, 4096}) {
    const at::Tensor flat = kept.flatten();
    const int64_t pairs = flat.numel() - lag;
    const double product =
        (flat.narrow(0, 0, pairs) * flat.narrow(0, lag, pairs)).sum().item<double>();
    // A sum of independent +-1/4.
    EXPECT_LE(std::abs(product), 5 * 0.25 * std::sqrt(static_cast<double>(pairs))) << lag;
  }
}

TEST(Dropout, DrawsAnotherMaskEachTimeAndTheSameOneAfterTheSameSeed) {
  const at::Tensor x = at::ones({100000});
  at::manual_seed(3);
  const at::Tensor first = DropElements(x, 0.5);
  const at::Tensor second = DropElements(x, 0.5);
  at::manual_seed(3);
  EXPECT_TRUE(at::equal(DropElements(x, 0.5), first));
  const double common = ((first != 0) & (second != 0)).sum().item<double>() / 100000;
  EXPECT_NEAR(common, 0.25, 0.01);
}

TEST(Dropout, SendsGradientsThroughTheSameMask) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    // More than one thread's piece, and a tail.
    const at::Tensor x = at::ones({100001}, type).requires_grad_();
    const at::Tensor y = DropElements(x, 0.3);
    y.sum().backward();
    EXPECT_TRUE(at::equal(x.grad(), y.detach()));
  }
}

TEST(Dropout, OfWhatIsNotContiguousKeepsTheShape) {
  const at::Tensor x = at::arange(1, 13, at::kFloat).view({3, 4}).t().requires_grad_();
  const at::Tensor y = DropElements(x, 0.5);
  EXPECT_TRUE(((y == 0) | (y == x * 2)).all().item<bool>());
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), (y != 0).to(at::kFloat) * 2));
}

TEST(Dropout, OfNothingOrWithProbabilityZeroChangesNothing) {
  const at::Tensor x = at::randn({5});
  EXPECT_TRUE(at::equal(DropElements(x, 0), x));
  EXPECT_EQ(DropElements(at::empty({0, 3}), 0.5).sizes(), (at::IntArrayRef{0, 3}));
}

TEST(Gelu, EqualsLibTorchsTanhForm) {
  const at::Tensor x = at::linspace(-12, 12, 100003);
  const at::Tensor own_x = x.clone().requires_grad_();
  const at::Tensor own = GeluTanh(own_x);
  own.sum().backward();
  const at::Tensor exact_x = x.to(at::kDouble).requires_grad_();
  const at::Tensor exact = at::gelu(exact_x, "tanh");
  exact.sum().backward();
  EXPECT_LE(LargestDifference(own.detach(), exact.detach()), 2e-6);
  EXPECT_LE(LargestDifference(own_x.grad(), exact_x.grad()), 2e-6);
}

TEST(Gelu, InBf16RoundsOnce) {
  const at::Tensor x = at::linspace(-6, 6, 1001).to(at::kBFloat16);
  const at::Tensor exact = at::gelu(x.to(at::kDouble), "tanh");
  const at::Tensor error = (GeluTanh(x).to(at::kDouble) - exact).abs();
  EXPECT_TRUE((error <= exact.abs() / 256 + 1e-6).all().item<bool>());
}

TEST(Gelu, KeepsWhatIsNoNumber) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const at::Tensor y =
      GeluTanh(at::tensor({kInfinity, -100.0f, std::numeric_limits<float>::quiet_NaN()}));
  EXPECT_EQ(y[0].item<float>(), kInfinity);
  EXPECT_NEAR(y[1].item<float>(), 0, 1e-30);
  EXPECT_TRUE(std::isnan(y[2].item<float>()));
}

}  // namespace
}  // namespace ddprun::trainer
