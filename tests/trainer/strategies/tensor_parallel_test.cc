// Layers of which each rank has a part, and models made of them, beside whole ones.
#include "trainer/parallel/tensor_parallel.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>

#include "tests/trainer/compute/largest_difference.h"
#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/compute/norm.h"
#include "trainer/compute/operations.h"
#include "trainer/compute/precision.h"
#include "trainer/models/registry.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor Exact(at::IntArrayRef sizes, uint64_t seed) {
  return Random(sizes, seed).to(at::kDouble);
}

at::Tensor Leaf(const at::Tensor& values) {
  return values.detach().clone().requires_grad_(true);
}

Axis AxisOf(const c10::intrusive_ptr<HostProcessGroup>& group, int rank) {
  return {.rank = rank, .size = group->getSize(), .group = group};
}

at::Tensor Own(const TensorAxis& axis, const at::Tensor& whole, int64_t dimension) {
  const auto [begin, length] = axis.OwnRange(whole.size(dimension));
  return whole.narrow(dimension, begin, length);
}

void ExpectEqual(const at::Tensor& found, const at::Tensor& expected, double tolerance = 1e-12) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_LE(LargestDifference(found, expected), tolerance);
}

TEST(TensorParallel, ASplitLayerIsTheWholeOne) {
  // 10 and 7 are shared out unevenly.
  const at::Tensor x = Exact({3, 4, 10}, 1);
  const Tensors weights = {Exact({7, 10}, 2), Exact({5, 10}, 3)};
  const at::Tensor bias = Exact({7}, 4);
  const at::Tensor weight_of_seven = Exact({6, 7}, 5);
  const at::Tensor bias_of_six = Exact({6}, 6);
  const Tensors whole = {Leaf(x),          Leaf(weights[0]),      Leaf(bias),
                         Leaf(weights[1]), Leaf(weight_of_seven), Leaf(bias_of_six)};
  const at::Tensor inner = at::linear(whole[0], whole[1], whole[2]).tanh();
  const at::Tensor beside = at::linear(whole[0], whole[3]).tanh();
  const at::Tensor y = at::linear(inner, whole[4], whole[5]);
  (y.square().sum() + beside.pow(3).sum()).backward();
  for (const int ranks : {1, 2, 4}) {
    WithGroup(ranks, [&](const auto& group, int rank) {
      const auto axis = MakeTensorAxis(AxisOf(group, rank));
      for (const WeightLayout layout : {WeightLayout::kOutIn, WeightLayout::kInOut}) {
        const bool out_in = layout == WeightLayout::kOutIn;
        const auto stored = [&](const at::Tensor& weight) { return out_in ? weight : weight.t(); };
        const at::Tensor own_x = Leaf(x);
        const at::Tensor first = Leaf(Own(*axis, weights[0], 0));
        const at::Tensor first_bias = Leaf(Own(*axis, bias, 0));
        const at::Tensor second = Leaf(Own(*axis, weights[1], 0));
        const at::Tensor last = Leaf(Own(*axis, weight_of_seven, 1));
        const at::Tensor last_bias = Leaf(bias_of_six);
        const std::vector<LinearWeights> layers = {{stored(first), first_bias},
                                                   {stored(second), {}}};
        const auto parts = axis->ByOutputs(own_x, layers, layout);
        const at::Tensor all = axis->Gather(parts[1], 5).tanh();
        const at::Tensor sum = axis->ByInputs(parts[0].tanh(), {stored(last), last_bias}, layout);
        ExpectEqual(sum, y);
        ExpectEqual(all, beside);
        (sum.square().sum() + all.pow(3).sum()).backward();
        ExpectEqual(own_x.grad(), whole[0].grad());
        ExpectEqual(first.grad(), Own(*axis, whole[1].grad(), 0));
        ExpectEqual(first_bias.grad(), Own(*axis, whole[2].grad(), 0));
        ExpectEqual(second.grad(), Own(*axis, whole[3].grad(), 0));
        ExpectEqual(last.grad(), Own(*axis, whole[4].grad(), 1));
        ExpectEqual(last_bias.grad(), whole[5].grad());
      }
    });
  }
}

TEST(TensorParallel, ModulesOfAProgramAreThoseOfTheWholeLayer) {
  std::mutex drawing;  // threads share torch's generator
  const at::Tensor x = Random({5, 6}, 1);
  const ParallelLinearOptions whole_outputs{.gather_output = true};
  const ParallelLinearOptions whole_inputs{.bias = false, .whole_input = true};
  at::manual_seed(7);
  ColumnParallelLinear up(Axis(), 6, 9);
  RowParallelLinear down(Axis(), 9, 4);
  ColumnParallelLinear gathered(Axis(), 4, 3, whole_outputs);
  RowParallelLinear scattered(Axis(), 3, 2, whole_inputs);
  const auto forward = [&](auto& a, auto& b, auto& c, auto& d) {
    return d(c(b(a(x).relu())).relu());
  };
  const at::Tensor expected = forward(up, down, gathered, scattered);
  expected.sum().backward();
  WithGroup(2, [&](const auto& group, int rank) {
    const Axis axis = AxisOf(group, rank);
    std::unique_lock lock(drawing);
    at::manual_seed(7);
    ColumnParallelLinear own_up(axis, 6, 9);
    RowParallelLinear own_down(axis, 9, 4);
    ColumnParallelLinear own_gathered(axis, 4, 3, whole_outputs);
    RowParallelLinear own_scattered(axis, 3, 2, whole_inputs);
    lock.unlock();
    const auto split = MakeTensorAxis(axis);
    EXPECT_TRUE(own_up->weight.equal(Own(*split, up->weight, 0)));
    EXPECT_TRUE(own_down->weight.equal(Own(*split, down->weight, 1)));
    const at::Tensor found = forward(own_up, own_down, own_gathered, own_scattered);
    ExpectEqual(found, expected, 1e-6);
    found.sum().backward();
    ExpectEqual(own_up->weight.grad(), Own(*split, up->weight.grad(), 0), 1e-6);
    ExpectEqual(own_down->weight.grad(), Own(*split, down->weight.grad(), 1), 1e-6);
    ExpectEqual(own_down->bias.grad(), down->bias.grad(), 1e-6);
    ExpectEqual(own_scattered->weight.grad(), Own(*split, scattered->weight.grad(), 1), 1e-6);
  });
}

TEST(TensorParallel, RefusesALayerWithLessThanOneNumberForEachRank) {
  WithGroup(2, [](const auto& group, int rank) {
    const Axis axis = AxisOf(group, rank);
    EXPECT_THROW(ColumnParallelLinear(axis, 4, 1), Failure);
    EXPECT_THROW(RowParallelLinear(axis, 1, 4), Failure);
  });
}

// Layers before one that takes a whole input are equal on all ranks, with equal gradients.
TEST(TensorParallel, AWholeInputHasItsWholeGradient) {
  std::mutex drawing;  // threads share torch's generator
  const at::Tensor x = Random({4, 5}, 1);
  const at::Tensor before = Random({6, 5}, 2);
  at::manual_seed(7);
  RowParallelLinear whole(Axis(), 6, 3, ParallelLinearOptions{.whole_input = true});
  const at::Tensor expected = Leaf(before);
  whole(at::linear(x, expected).tanh()).square().sum().backward();
  WithGroup(2, [&](const auto& group, int rank) {
    std::unique_lock lock(drawing);
    at::manual_seed(7);
    RowParallelLinear layer(AxisOf(group, rank), 6, 3, ParallelLinearOptions{.whole_input = true});
    lock.unlock();
    const at::Tensor replicated = Leaf(before);
    layer(at::linear(x, replicated).tanh()).square().sum().backward();
    ExpectEqual(replicated.grad(), expected.grad(), 1e-5);
  });
}

TEST(TensorParallel, TheLossOfASharedVocabularyIsThatOfAllScores) {
  constexpr int64_t kRows = 300, kWidth = 6;
  for (const int64_t classes : {7, 30011}) {  // the larger in several pieces
    const at::Tensor hidden = Exact({kRows, kWidth}, 1);
    const at::Tensor weight = Exact({classes, kWidth}, 2);
    at::Tensor targets =
        at::randint(classes, {kRows}, at::make_generator<at::CPUGeneratorImpl>(3), at::kLong);
    targets.narrow(0, 4, 9).fill_(-100);
    for (const double smoothing : {0.0, 0.1}) {
      const at::Tensor whole_hidden = Leaf(hidden);
      const at::Tensor whole_weight = Leaf(weight);
      const at::Tensor expected =
          at::cross_entropy_loss(at::linear(whole_hidden, whole_weight), targets, {},
                                 at::Reduction::Mean, -100, smoothing);
      (expected * 3).backward();
      WithGroup(2, [&](const auto& group, int rank) {
        const auto axis = MakeTensorAxis(AxisOf(group, rank));
        const at::Tensor own_hidden = Leaf(hidden);
        const at::Tensor own_weight = Leaf(Own(*axis, weight, 0));
        const auto loss = [&] {
          return axis->LinearCrossEntropy(own_hidden, own_weight, classes, targets, smoothing);
        };
        ExpectEqual(loss(), expected);
        (loss() * 3).backward();
        ExpectEqual(own_hidden.grad(), whole_hidden.grad());
        ExpectEqual(own_weight.grad(), Own(*axis, whole_weight.grad(), 0));
        const at::NoGradGuard no_grad;
        ExpectEqual(loss(), expected);
      });
    }
  }
}

TEST(TensorParallel, ALossWithoutTargetsThatCountIsZeroAndAWrongTargetIsRefused) {
  WithGroup(2, [&](const auto& group, int rank) {
    const auto axis = MakeTensorAxis(AxisOf(group, rank));
    const at::Tensor hidden = Leaf(Exact({2, 3}, 1));
    const at::Tensor weight = Exact({2, 3}, 2);
    const at::Tensor none = at::full({2}, -100, at::kLong);
    const at::Tensor loss = axis->LinearCrossEntropy(hidden, weight, 4, none, 0.1);
    EXPECT_EQ(loss.item<double>(), 0);
    loss.backward();
    ExpectEqual(hidden.grad(), at::zeros({2, 3}, at::kDouble), 0);
    EXPECT_THROW(axis->LinearCrossEntropy(hidden, weight, 4, at::full({2}, 4, at::kLong), 0),
                 c10::IndexError);
  });
}

}  // namespace
}  // namespace ddprun::trainer
