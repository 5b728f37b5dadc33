#include "trainer/compute/norm.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace ddprun::trainer {
namespace {

double Reference(const at::Tensor& tensor) {
  return tensor.to(at::kDouble).square().sum().item<double>();
}

double NormOf(std::span<const at::Tensor> tensors) {
  return std::sqrt(SquaresOf(tensors));
}

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(SquaresByBlock, AreThoseOfEveryTypeAndLength) {
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    for (const int64_t size : {1, 15, 16, 17, 4095, 4096, 4097, 300'001}) {
      const at::Tensor tensor = at::randn({size}).mul(1e-3).to(type);
      const std::vector<double> sums = SquaresByBlock({{tensor}});
      ASSERT_EQ(static_cast<int64_t>(sums.size()), (size + kNormBlock - 1) / kNormBlock);
      EXPECT_NEAR(Sum(sums) / Reference(tensor), 1, 1e-13) << type << " " << size;
    }
  }
}

// The order does not depend on the processor's instructions.
TEST(SquaresByBlock, AreAddedInTheOrderThatIsPromised) {
  at::manual_seed(4);
  const at::Tensor tensor = at::randn({1234});
  double lanes[16] = {};
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const double x = tensor.const_data_ptr<float>()[i];
    lanes[i % 16] += x * x;
  }
  for (const int half : {8, 4, 2, 1}) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  EXPECT_EQ(SquaresByBlock({{tensor}}), std::vector<double>{lanes[0]});
}

TEST(SquaresByBlock, HaveTheSameBitsForPartsAndForAnyNumberOfThreads) {
  at::manual_seed(2);
  const at::Tensor whole = at::randn({300'001});
  const std::vector<double> expected = SquaresByBlock({{whole}});
  const int64_t cut = 7 * kNormBlock;
  const at::Tensor parts[] = {whole.narrow(0, 0, cut), whole.narrow(0, cut, 300'001 - cut)};
  const int threads = at::get_num_threads();
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    EXPECT_EQ(SquaresByBlock({{whole}}), expected) << count << " threads";
    EXPECT_EQ(SquaresByBlock(parts), expected) << count << " threads";
  }
  at::set_num_threads(threads);
}

TEST(SquaresByBlock, FollowTheOrderOfElementsAndNotOfMemory) {
  at::manual_seed(3);
  const at::Tensor matrix = at::randn({300, 50});
  const at::Tensor transposed = matrix.t().contiguous().t();
  ASSERT_FALSE(transposed.is_contiguous());
  EXPECT_EQ(SquaresByBlock({{transposed}}), SquaresByBlock({{matrix}}));
}

TEST(SquaresOf, IsExactWhereFloatIsNot) {
  // In float these squares would overflow, vanish, or stop counting after 2^24 of them.
  EXPECT_NEAR(NormOf({{at::full({4}, 1e30)}}) / 2e30, 1, 1e-7);
  EXPECT_NEAR(NormOf({{at::full({4}, 1e-30)}}) / 2e-30, 1, 1e-7);
  EXPECT_DOUBLE_EQ(NormOf({{at::ones({int64_t{1} << 25})}}), std::sqrt(double{1 << 25}));
  EXPECT_EQ(NormOf({}), 0.0);
}

TEST(SquaresOf, ShowsWhatIsNoNumber) {
  const double kInfinity = std::numeric_limits<double>::infinity();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    const at::Tensor tensor = at::ones({5000}, type);
    tensor[4999] = kInfinity;
    EXPECT_TRUE(std::isinf(NormOf({{at::ones({3}), tensor}})));
    tensor[17] = std::nan("");
    EXPECT_TRUE(std::isnan(NormOf({{at::ones({3}), tensor}})));
  }
}

}  // namespace
}  // namespace ddprun::trainer
