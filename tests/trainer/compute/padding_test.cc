#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <vector>

#include "trainer/compute/operations.h"

namespace ddprun::trainer {
namespace {

at::Tensor Places(const std::vector<int64_t>& places) {
  return at::tensor(places, at::kLong);
}

// Runs both ways, LibTorch's indexing beside them, values and gradients.
void ExpectAsIndexing(const at::Tensor& places, int64_t height, at::ScalarType type) {
  at::manual_seed(1);
  const at::Tensor packed = at::randn({places.numel(), 5}).to(type).requires_grad_();
  const at::Tensor padded = at::randn({height, 5}).to(type).requires_grad_();
  const at::Tensor of_padded = at::randn({height, 5}).to(type);
  const at::Tensor of_packed = at::randn({places.numel(), 5}).to(type);

  PadRows(packed, places, height).backward(of_padded);
  EXPECT_TRUE(
      at::equal(PadRows(packed, places, height),
                at::zeros({height, 5}, at::TensorOptions(type)).index_copy(0, places, packed)));
  EXPECT_TRUE(at::equal(packed.grad(), of_padded.index_select(0, places)));

  PackRows(padded, places).backward(of_packed);
  EXPECT_TRUE(at::equal(PackRows(padded, places), padded.index_select(0, places)));
  EXPECT_TRUE(
      at::equal(padded.grad(),
                at::zeros({height, 5}, at::TensorOptions(type)).index_copy(0, places, of_packed)));
}

TEST(Padding, IsIndexingAndItsGradient) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    ExpectAsIndexing(Places({0, 1, 2, 4, 8, 9}), 12, type);
    ExpectAsIndexing(Places({3, 11}), 12, type);
    ExpectAsIndexing(Places({0, 1, 2}), 3, type);
    ExpectAsIndexing(Places({}), 4, type);
  }
}

TEST(Padding, IsIndexingWhenThreadsShareTheRows) {
  const int threads = at::get_num_threads();
  at::set_num_threads(3);
  const at::Tensor places = (at::arange(40000, at::kLong).remainder(7) < 3).nonzero().squeeze(1);
  ExpectAsIndexing(places, 40000, at::kFloat);
  at::set_num_threads(threads);
}

TEST(Padding, TakesRowsThatAreNotContiguous) {
  const at::Tensor wide = at::arange(24, at::kFloat).view({4, 6});
  const at::Tensor packed = wide.narrow(1, 2, 2);
  const at::Tensor places = Places({0, 2, 3, 5});
  const at::Tensor padded = PadRows(packed, places, 6);
  EXPECT_TRUE(at::equal(padded.index_select(0, places), packed));
  EXPECT_EQ(padded.select(0, 1).abs().sum().item<float>(), 0);
  EXPECT_TRUE(
      at::equal(PackRows(wide.t(), Places({1, 4})), wide.t().index_select(0, Places({1, 4}))));
}

}  // namespace
}  // namespace ddprun::trainer
