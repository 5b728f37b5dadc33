// Compares results of ATen's operators, as on a device, with those of the CPU's own kernels.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/trainer/compute/largest_difference.h"
#include "trainer/compute/device.h"
#include "trainer/compute/norm.h"
#include "trainer/compute/operations.h"
#include "trainer/compute/precision.h"

namespace ddprun::trainer {
namespace {

using Tensors = std::vector<at::Tensor>;

// The value, and the gradients of its weighted sum.
template <typename Function>
Tensors ValueAndGradients(const Function& function, const Tensors& inputs) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.clone().requires_grad_());
  const at::Tensor value = function(leaves);
  const at::Tensor weights = at::linspace(1, 2, value.numel()).view(value.sizes());
  (value * weights).sum().backward();
  Tensors result = {value.detach()};
  for (const at::Tensor& leaf : leaves) result.push_back(leaf.grad());
  return result;
}

template <typename Function>
void ExpectSameAsOnHost(const Function& function, const Tensors& inputs, double tolerance) {
  const Tensors expected = ValueAndGradients(function, inputs);
  const DeviceOperatorsOnly scope;
  const Tensors found = ValueAndGradients(function, inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), expected[i].scalar_type());
    EXPECT_LE(LargestDifference(found[i], expected[i]),
              tolerance * expected[i].abs().max().item<double>())
        << i;
  }
}

TEST(DeviceForms, AreNotThoseOfTheHost) {
  const at::Tensor x = at::ones({3});
  EXPECT_TRUE(IsForHostKernels(x));
  const DeviceOperatorsOnly scope;
  EXPECT_FALSE(IsForHostKernels(x));
}

TEST(DeviceForms, OfGeluAndPaddingEqualTheHosts) {
  at::manual_seed(1);
  ExpectSameAsOnHost([](const Tensors& in) { return GeluTanh(in[0]); }, {at::randn({33, 17})},
                     1e-6);
  const at::Tensor places = at::tensor({0, 2, 3, 7}, at::kLong);
  ExpectSameAsOnHost([&](const Tensors& in) { return PadRows(in[0], places, 9); },
                     {at::randn({4, 5})}, 0);
  ExpectSameAsOnHost([&](const Tensors& in) { return PackRows(in[0], places); },
                     {at::randn({9, 5})}, 0);
}

TEST(DeviceForms, OfDropoutDropTheSameInBackward) {
  const DeviceOperatorsOnly scope;
  at::manual_seed(2);
  const at::Tensor x = at::ones({100'000}).requires_grad_();
  const at::Tensor y = DropElements(x, 0.3);
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), y.detach()));
  EXPECT_NEAR((y == 0).sum().item<double>() / 1e5, 0.3, 0.01);
}

TEST(DeviceForms, OfTheLastLayersLossEqualTheHosts) {
  at::manual_seed(3);
  at::Tensor targets = at::randint(0, 50'257, {400});
  targets.narrow(0, 0, 30).fill_(-100);
  const Tensors inputs = {at::randn({400, 8}), at::randn({50'257, 8})};
  for (const double smoothing : {0.0, 0.1}) {
    const auto loss = [&](const Tensors& in) {
      return LinearCrossEntropy(in[0], in[1], targets, smoothing);
    };
    // Both are up to 5e-5 of the largest gradient away from float64's.
    ExpectSameAsOnHost(loss, inputs, 2e-5);
    // Times a factor, as that of a micro-batch.
    ExpectSameAsOnHost([&](const Tensors& in) { return loss(in) * 0.25; }, inputs, 2e-5);
    const PrecisionScope scope(Precision::kBf16);
    ExpectSameAsOnHost(loss, inputs, 1e-2);
  }
}

TEST(DeviceForms, ShowATargetOutOfRangeAsALossThatIsNoNumber) {
  const DeviceOperatorsOnly scope;
  const at::Tensor hidden = at::ones({3, 2});
  const at::Tensor weight = at::ones({5, 2});
  const auto loss = [&](int64_t target) {
    return LinearCrossEntropy(hidden, weight, at::tensor({int64_t{1}, target, int64_t{-100}}))
        .item<double>();
  };
  EXPECT_NEAR(loss(4), std::log(5), 1e-6);
  EXPECT_TRUE(std::isnan(loss(5)));
  EXPECT_TRUE(std::isnan(loss(-1)));
  EXPECT_EQ(LinearCrossEntropy(hidden, weight, at::full({3}, -100, at::kLong)).item<double>(), 0);
}

TEST(DeviceForms, OfTheNormEqualTheHosts) {
  at::manual_seed(4);
  const std::array<at::Tensor, 4> tensors = {at::randn({300, 41}), at::randn({5}), at::ones({0}),
                                             at::randn({4096}).to(at::kBFloat16)};
  const double expected = SquaresOf(tensors);
  const DeviceOperatorsOnly scope;
  EXPECT_NEAR(SquaresOf(tensors) / expected, 1, 1e-12);
}

TEST(Generators, AreSeededForTheirDeviceOnly) {
  SeedGenerators(at::kCPU, 7);
  const at::Tensor first = at::rand({3});
  at::manual_seed(7);
  EXPECT_TRUE(at::rand({3}).equal(first));
}

TEST(DeviceScalar, AddsAndMultiplies) {
  DeviceScalar sum = 1.5;
  sum += DeviceScalar(at::full({}, 2.0)) * 3.0;
  EXPECT_EQ(sum, 7.5);
  EXPECT_FALSE(sum.on_device().defined());
}

}  // namespace
}  // namespace ddprun::trainer
