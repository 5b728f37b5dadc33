// A run that is stopped and goes on in fresh objects ends with the bits of one that was not.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/failure.h"
#include "tests/trainer/load_state.h"
#include "tests/trainer/strategies/strategy_fixture.h"
#include "trainer/strategies/ddp.h"
#include "trainer/strategies/single.h"

namespace ddprun::trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using TensorList = std::vector<at::Tensor>;

constexpr int kStateRanks = 2;
constexpr int kStop = 4;
constexpr int kAllSteps = 8;

struct StateCase {
  std::string name;
  OptimizerOptions optimizer = {};
  bool power_sgd = false;
  bool local_sgd = false;
};

DataParallelOptions OptionsOfCase(const StateCase& variant) {
  DataParallelOptions options;
  options.sync.reducer.limits = {.first_bytes = 400, .cap_bytes = 2000};
  if (variant.power_sgd) {
    options.sync.reducer.comm_hook = MakePowerSgdHook({.rank = 2, .start_step = 1});
  }
  if (variant.local_sgd) {
    // Averages of the parameters after steps 3, 6 and 9: the stop is between two of them.
    options.sync.reducer.comm_hook = MakePostLocalSgdHook({.start_step = 2});
    options.averaging = {.period = 3, .warmup_steps = 2};
  }
  return options;
}

// One rank's run. `seed`: of its first weights, which loading replaces.
class StateRun {
 public:
  StateRun(const StateCase& variant,
           const c10::intrusive_ptr<HostProcessGroup>& group,
           uint64_t seed)
      : rank_(group->getRank()) {
    const std::vector<std::vector<int64_t>> sizes = {{6, 20}, {20, 20}, {20}, {20, 4}};
    std::vector<std::pair<std::string, at::Tensor>> named;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const at::Tensor weight = Random(sizes[i], seed + i).mul_(0.3).set_requires_grad(true);
      named.emplace_back(i == 2 ? "bias" : "weight" + std::to_string(i), weight);
      weights_.push_back({named.back().first, weight});
    }
    buffer_ = at::full({20}, 1 + 0.1 * static_cast<double>(seed));
    strategy_ = MakeDistributedDataParallel(
        std::make_shared<GivenModel>(weights_, std::vector<NamedParameter>{{"mean", buffer_}}),
        MakeOptimizer(variant.optimizer, GroupByDecay(named, {"bias"}, 0.1)), group,
        OptionsOfCase(variant));
  }

  void Train(int from, int to) {
    for (int step = from; step < to; ++step) {
      Backward(
          *strategy_, [&](size_t micro) { return Loss(2 * step + static_cast<int>(micro)); },
          /*micro_batches=*/2, /*learning_rate=*/0.01 * (step + 1));
      strategy_->ClipGradients(1.0);
      strategy_->Step();
    }
  }
  // After all steps.
  TensorList Result() {
    strategy_->Finish();
    TensorList result = {buffer_.clone()};
    for (const NamedParameter& weight : weights_) result.push_back(weight.tensor.detach().clone());
    return result;
  }
  Strategy& strategy() { return *strategy_; }

 private:
  // A running mean, as in BatchNorm, which takes part.
  at::Tensor Loss(int index) {
    at::Tensor x = Random({5, 6}, static_cast<uint64_t>(100 * rank_ + index + 1));
    x = at::tanh(at::matmul(x, weights_[0].tensor));
    const at::NoGradGuard no_grad;
    buffer_.mul_(0.9).add_(x.detach().mean(0), 0.1);
    const at::AutoGradMode grad(true);
    x = at::tanh(at::matmul(x - buffer_.clone(), weights_[1].tensor) + weights_[2].tensor);
    return at::matmul(x, weights_[3].tensor).pow(2).sum();
  }

  const int rank_;
  std::vector<NamedParameter> weights_;
  at::Tensor buffer_;
  std::unique_ptr<Strategy> strategy_;
};

bool AllEqual(const TensorList& left, const TensorList& right) {
  for (size_t i = 0; i < left.size(); ++i) {
    if (!at::equal(left[i], right[i])) return false;
  }
  return true;
}

// Returns the parameters of a new run that loads the state; empty means that it refuses the state.
TensorList TrainFrom(const StateCase& variant,
                     const c10::intrusive_ptr<HostProcessGroup>& group,
                     const StateDict& state) {
  StateRun run(variant, group, /*seed=*/77);
  try {
    LoadState(state, NamesOf(run.strategy()));
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().page, "state-does-not-fit");
    return {};
  }
  run.Train(kStop, kAllSteps);
  return run.Result();
}

class StrategyState : public testing::TestWithParam<StateCase> {};

TEST_P(StrategyState, ResumesBitForBit) {
  WithGroup(kStateRanks, [&](const auto& group, int) {
    StateRun whole(GetParam(), group, /*seed=*/1);
    whole.Train(0, kStop);
    const StateDict state = CopyOf(whole.strategy().State());
    whole.Train(kStop, kAllSteps);
    const TensorList expected = whole.Result();
    const TensorList found = TrainFrom(GetParam(), group, state);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_TRUE(AllEqual(found, expected));
  });
}

// Nothing in it is there in vain, and nothing may be missing.
TEST_P(StrategyState, NeedsEachOfItsItems) {
  WithGroup(kStateRanks, [&](const auto& group, int) {
    StateRun whole(GetParam(), group, /*seed=*/1);
    whole.Train(0, kStop);
    const StateDict state = CopyOf(whole.strategy().State());
    whole.Train(kStop, kAllSteps);
    const TensorList expected = whole.Result();
    // Both ranks change the same items; one may see the difference only in the buffer of its own.
    const auto differs = [&](const StateDict& changed) {
      const TensorList found = TrainFrom(GetParam(), group, changed);
      at::Tensor same = at::full({1}, !found.empty() && AllEqual(found, expected) ? 1 : 0);
      std::vector<at::Tensor> sum = {same};
      group->allreduce(sum, {})->wait();
      return same.template item<int64_t>() < kStateRanks;
    };
    for (size_t i = 0; i < state.tensors.size(); ++i) {
      StateDict changed = CopyOf(state);
      changed.tensors[i].tensor.zero_();
      EXPECT_TRUE(differs(changed)) << changed.tensors[i].name;
      changed.tensors.erase(changed.tensors.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_TRUE(TrainFrom(GetParam(), group, changed).empty()) << state.tensors[i].name;
    }
    for (const auto& [name, number] : state.numbers) {
      StateDict changed = state;
      changed.numbers[name] = number == 0 ? 1 : 0;
      EXPECT_TRUE(differs(changed)) << name;
      changed.numbers.erase(name);
      EXPECT_TRUE(TrainFrom(GetParam(), group, changed).empty()) << name;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Variants,
    StrategyState,
    testing::Values(StateCase{"Momentum", {.kind = OptimizerType::kSgd, .momentum = 0.9}},
                    StateCase{"Adam", {.kind = OptimizerType::kAdam}},
                    StateCase{"AdamW", {.kind = OptimizerType::kAdamW}},
                    StateCase{"Adagrad", {.kind = OptimizerType::kAdagrad}},
                    StateCase{"PowerSgd", {.kind = OptimizerType::kSgd, .momentum = 0.9}, true},
                    StateCase{"PostLocalSgd", {.kind = OptimizerType::kAdamW}, false, true}),
    [](const auto& test) { return test.param.name; });

// A strategy on its own whose parameters have gradients of ones.
std::unique_ptr<Strategy> AfterOneStep(const std::vector<NamedParameter>& parameters) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const auto& [name, tensor] : parameters) named.emplace_back(name, tensor);
  auto strategy = MakeSingle(std::make_shared<GivenModel>(parameters),
                             MakeOptimizer({}, GroupByDecay(named, {}, 0)));
  Backward(*strategy, [&](size_t) {
    at::Tensor sum = at::zeros({});
    for (const auto& [name, tensor] : parameters) sum = sum + tensor.sum();
    return sum;
  });
  strategy->Step();
  return strategy;
}

NamedParameter Ones(const std::string& name, at::IntArrayRef sizes) {
  return {name, at::ones(sizes).set_requires_grad(true)};
}

TEST(StrategyStateErrors, NameAllThatDoesNotFit) {
  const StateDict state = AfterOneStep({Ones("a", {2, 3}), Ones("b", {4})})->State();
  try {
    LoadState(state, NamesOf(*AfterOneStep({Ones("a", {3, 2}), Ones("c", {4})})));
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.error().what,
                AllOf(HasSubstr("Missing (4): model.c, optimizer.c.step, optimizer.c.exp_avg, "
                                "optimizer.c.exp_avg_sq\n"),
                      HasSubstr("Not in this run (4): model.b, optimizer.b.exp_avg, "
                                "optimizer.b.exp_avg_sq, optimizer.b.step\n"),
                      HasSubstr("Of another shape or type (3): model.a is Float [2, 3] there and "
                                "Float [3, 2] here, optimizer.a.exp_avg is")));
  }
}

TEST(StrategyStateErrors, ComeWhereAnotherTypeIsKept) {
  const StateDict state = AfterOneStep({Ones("a", {2})})->State();
  const NamedParameter wide = {"a", at::ones({2}, at::kDouble).set_requires_grad(true)};
  EXPECT_THROW(LoadState(state, NamesOf(*AfterOneStep({wide}))), Failure);
}

TEST(StateDict, KeepsWhatEachRankHasAsASliceOfTheWhole) {
  const at::Tensor tensor = at::ones({2, 3});
  const auto of = [&](RankPart part) {
    return [&tensor, part](StateVisitor& visitor) {
      visitor.Section("hook.", part);
      visitor.Tensor("error", tensor);
    };
  };
  const StateDict state = SaveState(of({.rank = 1, .size = 4}));
  ASSERT_EQ(state.tensors.size(), 1U);
  EXPECT_EQ(state.tensors[0].name, "hook.error");
  EXPECT_THAT(state.tensors[0].global_shape, ElementsAre(4, 2, 3));
  EXPECT_THAT(state.tensors[0].offset, ElementsAre(1, 0, 0));
  EXPECT_EQ(state.tensors[0].tensor.sizes(), at::IntArrayRef({1, 2, 3}));
  EXPECT_NO_THROW(LoadState(state, of({.rank = 1, .size = 4})));
  EXPECT_THROW(LoadState(state, of({.rank = 0, .size = 4})), Failure);
  EXPECT_THROW(LoadState(state, of({.rank = 1, .size = 3})), Failure);
  EXPECT_THROW(LoadState(state, of({})), Failure);
}

}  // namespace
}  // namespace ddprun::trainer
