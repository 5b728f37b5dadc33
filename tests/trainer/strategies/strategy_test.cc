// Steps within backward, tuned bucket sizes, averaged parameters, buffers: what a strategy adds.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/failure.h"
#include "tests/trainer/strategies/strategy_fixture.h"

namespace ddprun::trainer {
namespace {

using Overlap = Reducer::Overlap;
using testing::ElementsAre;

constexpr double kRate = 0.05;

std::vector<NamedParameter> Weights() {
  const std::vector<std::vector<int64_t>> sizes = {{6, 20}, {20, 20}, {20, 4}, {20, 4}};
  std::vector<NamedParameter> weights;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const at::Tensor weight = Random(sizes[i], 10 + i).mul_(0.3);
    weights.push_back({"weight" + std::to_string(i), weight.set_requires_grad(true)});
  }
  return weights;
}

// Weight 1 is used twice; weight 3 is used by some ranks in some steps, if `some` allows.
at::Tensor Loss(const std::vector<NamedParameter>& w, int rank, int step, bool some) {
  at::Tensor x = Random({5, 6}, static_cast<uint64_t>(100 * rank + step + 1));
  x = at::tanh(at::matmul(x, w[0].tensor));
  for (int i = 0; i < 2; ++i) x = at::tanh(at::matmul(x, w[1].tensor));
  const at::Tensor sum = at::matmul(x, w[2].tensor).pow(2).sum();
  if (some && (rank + step) % 3 != 0) return sum;
  return sum + at::matmul(x, w[3].tensor).abs().sum();
}

struct Variant {
  std::string name;
  bool some = false;
  bool static_graph = false;
  at::ScalarType hook = at::kFloat;
  Overlap overlap = Overlap::kBackward;
};

Reducer::Options OptionsOf(const Variant& variant) {
  const bool plain = variant.hook == at::kFloat;
  return {.limits = {.first_bytes = 400, .cap_bytes = 800},
          .overlap = variant.overlap,
          .find_unused_parameters = variant.some && !variant.static_graph,
          .static_graph = variant.static_graph,
          .comm_hook = plain ? nullptr : MakeCompressHook(variant.hook)};
}

std::vector<at::Tensor> Train(const c10::intrusive_ptr<HostProcessGroup>& group,
                              const Variant& variant,
                              bool in_backward) {
  const std::vector<NamedParameter> weights = Weights();
  const auto strategy = DataParallelOf(
      weights, group, {.sync = {.reducer = OptionsOf(variant)}, .update_in_backward = in_backward});
  for (int step = 0; step < 5; ++step) {
    const auto loss = [&](size_t micro) {
      const int index = variant.static_graph ? 0 : 2 * step + static_cast<int>(micro);
      return Loss(weights, group->getRank(), index, variant.some);
    };
    Backward(*strategy, loss, 2, kRate);
    strategy->Step();
  }
  std::vector<at::Tensor> result;
  for (const NamedParameter& weight : weights) result.push_back(weight.tensor.detach());
  return result;
}

class UpdateInBackward : public testing::TestWithParam<Variant> {};

TEST_P(UpdateInBackward, EndsWithTheParametersOfThePlainStepBitForBit) {
  for (const int size : {1, 2, 3}) {
    WithGroup(size, [&](const auto& group, int) {
      const std::vector<at::Tensor> expected = Train(group, GetParam(), false);
      const std::vector<at::Tensor> actual = Train(group, GetParam(), true);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(at::equal(actual[i], expected[i])) << "weight " << i;
        // Where nothing is trained, everything is equal.
        if (i < 3) {
          EXPECT_FALSE(at::equal(actual[i], Weights()[i].tensor)) << "weight " << i;
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Variants,
    UpdateInBackward,
    testing::Values(Variant{.name = "Plain"},
                    Variant{.name = "WithoutOverlap", .overlap = Overlap::kNone},
                    Variant{.name = "UnusedParameters", .some = true},
                    Variant{.name = "StaticGraph", .some = true, .static_graph = true},
                    Variant{.name = "CompressHook", .hook = at::kBFloat16}),
    [](const auto& test) { return test.param.name; });

TEST(UpdateInBackward, ComesWhileBackwardGoesOn) {
  std::vector<std::string> events;
  WithGroup(1, [&](const auto& group, int) {
    std::vector<NamedParameter> weights;
    for (const char* name : {"first", "middle", "last"}) {
      weights.push_back({name, at::ones({4}).set_requires_grad(true)});
    }
    const auto update = [&](std::span<const at::Tensor> parameters) {
      for (const NamedParameter& weight : weights) {
        if (weight.tensor.is_same(parameters[0])) events.push_back("update " + weight.name);
      }
    };
    Reducer reducer(weights, group,
                    {.limits = {.first_bytes = 1, .cap_bytes = 1}, .update_in_backward = update});
    reducer.PrepareBackward(true);
    const at::Tensor inner = at::tanh(weights[0].tensor);
    inner.register_hook([&](const at::Tensor&) { events.push_back("backward of first"); });
    const at::Tensor outer = at::tanh(inner * weights[1].tensor);
    // The all-reduce of the last one's gradient is done when this barrier is.
    outer.register_hook([&](const at::Tensor&) { group->barrier({})->wait(); });
    (outer * weights[2].tensor).sum().backward();
    events.push_back("end");
    reducer.WaitForBuckets(update);
  });
  ASSERT_EQ(events.size(), 5U);
  EXPECT_THAT(std::vector<std::string>(events.begin(), events.begin() + 1),
              ElementsAre("update last"));
  EXPECT_EQ(events.back(), "end");
  EXPECT_THAT(events, testing::UnorderedElementsAre("update last", "update middle", "update first",
                                                    "backward of first", "end"));
  EXPECT_LT(std::find(events.begin(), events.end(), "update last"),
            std::find(events.begin(), events.end(), "backward of first"));
}

TEST(UpdateInBackward, DoesNotGoWithAnOverlapThatWaitsLater) {
  WithGroup(1, [](const auto& group, int) {
    for (const Overlap overlap : {Overlap::kStep, Overlap::kBoth}) {
      const Reducer::Options options{.overlap = overlap, .update_in_backward = [](auto) {}};
      EXPECT_THROW(Reducer(Weights(), group, options), Failure);
    }
  });
}

TEST(TunedBuckets, AreTheSameOnAllRanksAndChangeNoGradient) {
  std::array<BucketTuning, 2> found;
  WithGroup(2, [&](const auto& group, int rank) {
    // Three of 1.5 MiB: one bucket or several.
    std::vector<NamedParameter> weights;
    for (const char* name : {"a", "b", "c"}) {
      weights.push_back({name, at::ones({393'216}).set_requires_grad(true)});
    }
    Reducer reducer(weights, group, {.tune_limits = true});
    int steps = 0;
    for (; steps < 100 && reducer.tuning() == nullptr; ++steps) {
      reducer.BeginStep();
      if (reducer.tuning() != nullptr) break;
      reducer.PrepareBackward(true);
      (weights[0].tensor * (rank + 1) + weights[1].tensor * steps + weights[2].tensor)
          .sum()
          .backward();
      ASSERT_TRUE(at::equal(weights[0].tensor.grad(), at::full({393'216}, 1.5)));
      ASSERT_TRUE(at::equal(weights[1].tensor.grad(), at::full({393'216}, steps)));
    }
    ASSERT_NE(reducer.tuning(), nullptr);
    found[static_cast<size_t>(rank)] = *reducer.tuning();
    EXPECT_EQ(steps, 1 + found[static_cast<size_t>(rank)].steps);  // the first finds the order
    EXPECT_EQ(static_cast<int64_t>(reducer.BucketNames().size()),
              reducer.tuning()->trials[reducer.tuning()->chosen].buckets);
  });
  EXPECT_EQ(found[0].chosen, found[1].chosen);
  ASSERT_EQ(found[0].trials.size(), found[1].trials.size());
  EXPECT_EQ(found[0].trials.size(), 3U);  // others would lay these gradients out as these do
  for (size_t i = 0; i < found[0].trials.size(); ++i) {
    EXPECT_EQ(found[0].trials[i].seconds, found[1].trials[i].seconds);
    EXPECT_GT(found[0].trials[i].seconds, 0);
  }
}

TEST(Averaging, ComesEveryPeriodAfterTheWarmUpAndAtTheEnd) {
  WithGroup(2, [](const auto& group, int rank) {
    const at::Tensor weight = at::zeros({3}).set_requires_grad(true);
    const auto strategy = DataParallelOf(
        {{"weight", weight}}, group,
        {.sync = {.reducer = {.comm_hook = MakePostLocalSgdHook({.start_step = 2})}},
         .averaging = PeriodicModelAverager::Options{.period = 2, .warmup_steps = 3}});
    std::vector<double> values;
    for (int step = 0; step < 7; ++step) {
      Backward(
          *strategy, [&](size_t) { return (weight * (rank == 0 ? -1 : -3)).sum(); }, 1, 1);
      strategy->Step();
      values.push_back(weight[0].item<double>());
    }
    strategy->Finish();
    values.push_back(weight[0].item<double>());
    // Averaged gradients in two steps; then own ones, and averages after steps 4 and 6.
    const std::vector<double> mine = rank == 0 ? std::vector<double>{2, 4, 5, 8, 9, 12, 13, 14}
                                               : std::vector<double>{2, 4, 7, 8, 11, 12, 15, 14};
    EXPECT_EQ(values, mine);
  });
}

TEST(Averaging, LetsRanksGoOnAloneInBetween) {
  WithGroup(2, [](const auto& group, int rank) {
    const at::Tensor weight = at::zeros({3}).set_requires_grad(true);
    const at::Tensor buffer = at::zeros({1});
    const auto strategy = DataParallelOf(
        {{"weight", weight}}, group,
        {.sync = {.reducer = {.comm_hook = MakePostLocalSgdHook({.start_step = 1})}},
         .averaging = PeriodicModelAverager::Options{.period = 3, .warmup_steps = 1}},
        {{"buffer", buffer}});
    std::vector<bool> averages, met, same_buffer;
    for (int step = 0; step < 6; ++step) {
      // Without any wait for the other rank its steps may be far ahead by now.
      buffer.fill_(10 * step + rank);
      averages.push_back(strategy->averages_gradients());
      const auto loss = [&](size_t) {
        same_buffer.push_back(buffer.item<double>() == 10 * step);
        return (weight * (rank + 1)).sum();
      };
      Backward(*strategy, loss, 1, kRate);
      strategy->Step();
      met.push_back(strategy->ranks_met());
    }
    EXPECT_THAT(averages, ElementsAre(true, false, false, false, false, false));
    EXPECT_THAT(met, ElementsAre(true, true, false, false, true, false));
    if (rank == 1) {
      EXPECT_THAT(same_buffer, ElementsAre(true, false, true, false, false, true));
    }
  });
}

TEST(Strategy, LeavesFrozenParametersAlone) {
  const std::vector<NamedParameter> parameters = {
      {"frozen", at::ones({2})}, {"weight", at::zeros({2}).set_requires_grad(true)}};
  const auto step = [&](Strategy& strategy) {
    const at::Tensor& weight = parameters[1].tensor;
    weight.detach().zero_();
    Backward(
        strategy, [&](size_t) { return (weight * parameters[0].tensor).sum(); }, 1, 1);
    strategy.Step();
    EXPECT_NEAR(strategy.GradientNorm(), std::sqrt(2.0), 1e-12);
    EXPECT_TRUE(at::equal(weight, at::full({2}, -1.0)));
    EXPECT_TRUE(at::equal(parameters[0].tensor, at::ones({2})));
  };
  step(*SingleOf(parameters));
  WithGroup(1, [&](const auto& group, int) {
    step(*DataParallelOf(parameters, group));
    // With the update bucket by bucket the optimizer is given parameters by the reducer.
    step(*DataParallelOf(parameters, group, {.sync = {.reducer = {.overlap = Overlap::kStep}}}));
  });
}

TEST(Strategy, GivesAllRanksTheBuffersOfRankZeroBeforeAStepAndAnEvaluation) {
  for (const bool broadcast : {true, false}) {
    WithGroup(2, [&](const auto& group, int rank) {
      const at::Tensor buffer = at::zeros({2});
      const at::Tensor weight = at::zeros({2}).set_requires_grad(true);
      const at::Tensor frozen = at::zeros({2});
      const auto strategy =
          DataParallelOf({{"weight", weight}, {"frozen", frozen}}, group,
                         {.sync = {.broadcast_buffers = broadcast}}, {{"buffer", buffer}});
      const auto expect = [&](int own, int first) {
        const double expected = broadcast ? first : own;
        EXPECT_TRUE(at::equal(buffer, at::full({2}, expected, at::kFloat)));
      };
      buffer.fill_(rank + 1);
      Backward(*strategy, [&](size_t) {
        expect(rank + 1, 1);
        return (weight + buffer).sum();
      });
      buffer.fill_(rank + 11);
      strategy->BeforeEvaluation();
      expect(rank + 11, 11);
    });
  }
}

}  // namespace
}  // namespace ddprun::trainer
