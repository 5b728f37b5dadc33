// Gradients that do not come, come in pieces, or must not come as they are.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/failure.h"
#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/parallel/reducer.h"

namespace ddprun::trainer {
namespace {

// A trunk and two heads; the loss takes the heads that it is told to.
struct TwoHeads {
  std::vector<NamedParameter> parameters = {
      {"trunk", Random({4, 8}, 1).set_requires_grad(true)},
      {"head.a", Random({8, 3}, 2).set_requires_grad(true)},
      {"head.b", Random({8, 3}, 3).set_requires_grad(true)},
  };
  at::Tensor Loss(int rank, bool a, bool b) const {
    const at::Tensor x = at::matmul(Random({5, 4}, 10 + rank), parameters[0].tensor).tanh();
    at::Tensor loss = at::zeros({});
    if (a) loss = loss + at::matmul(x, parameters[1].tensor).pow(2).sum();
    if (b) loss = loss + at::matmul(x, parameters[2].tensor).pow(2).sum();
    return loss;
  }
  at::Tensor grad(size_t index) const { return parameters[index].tensor.grad(); }
};

// Returns the parameter's gradient in one process: the average over the ranks, with zeros of ranks
// that do not use it.
at::Tensor Average(size_t parameter, const std::vector<std::pair<bool, bool>>& heads) {
  at::Tensor sum;
  for (size_t rank = 0; rank < heads.size(); ++rank) {
    TwoHeads model;
    const at::Tensor loss =
        model.Loss(static_cast<int>(rank), heads[rank].first, heads[rank].second);
    if (loss.requires_grad()) loss.backward();
    at::Tensor gradient = model.grad(parameter);
    if (!gradient.defined()) gradient = at::zeros_like(model.parameters[parameter].tensor);
    sum = sum.defined() ? sum + gradient : gradient;
  }
  return sum / static_cast<int64_t>(heads.size());
}

class UnusedParameters : public testing::TestWithParam<bool> {
 protected:
  // One synchronised backward; the reducer gets to know the outputs if the parameter says so.
  static void Backward(Reducer& reducer, const TwoHeads& model, int rank, bool a, bool b) {
    const at::Tensor loss = model.Loss(rank, a, b);
    const std::vector<at::Tensor> outputs = {loss};
    reducer.BeginStep();
    reducer.PrepareBackward(true, GetParam() ? outputs : std::vector<at::Tensor>{});
    loss.backward();
  }
};

TEST_P(UnusedParameters, GiveZeroToTheAverageOfTheRanksThatUsedThem) {
  const std::vector<std::vector<std::pair<bool, bool>>> steps = {
      {{true, true}, {true, false}, {false, true}},
      {{true, false}, {false, true}, {true, true}},
      {{true, true}, {true, true}, {true, true}},
  };
  WithGroup(3, [&](const auto& group, int rank) {
    TwoHeads model;
    Reducer reducer(model.parameters, group,
                    {.limits = {.first_bytes = 1, .cap_bytes = 1}, .find_unused_parameters = true});
    for (const auto& step : steps) {
      const auto [a, b] = step[static_cast<size_t>(rank)];
      Backward(reducer, model, rank, a, b);
      for (size_t i = 0; i < 3; ++i) {
        ASSERT_TRUE(at::allclose(model.grad(i), Average(i, step), 1e-6, 1e-7)) << i;
      }
    }
  });
}

TEST_P(UnusedParameters, KeepTheirGradientWhereNoRankUsedThem) {
  WithGroup(2, [](const auto& group, int rank) {
    TwoHeads model;
    Reducer reducer(model.parameters, group, {.find_unused_parameters = true});
    Backward(reducer, model, rank, true, false);
    EXPECT_TRUE(model.grad(1).defined());
    EXPECT_FALSE(model.grad(2).defined());
  });
}

INSTANTIATE_TEST_SUITE_P(Known, UnusedParameters, testing::Bool(), [](const auto& tested) {
  return tested.param ? std::string("BeforeBackward") : std::string("AfterBackward");
});

TEST(UnusedParametersOfOneRank, ItGoesAlongWithoutAnyGradient) {
  WithGroup(2, [](const auto& group, int rank) {
    TwoHeads model;
    Reducer reducer(model.parameters, group, {.find_unused_parameters = true});
    const at::Tensor loss = model.Loss(rank, rank == 0, false);
    const std::vector<at::Tensor> outputs = {loss};
    reducer.PrepareBackward(true, outputs);
    if (rank == 0) loss.backward();
    EXPECT_TRUE(at::allclose(model.grad(1), Average(1, {{true, false}, {false, false}})));
    EXPECT_FALSE(model.grad(2).defined());
  });
}

TEST(StaticGraph, WaitsForEveryPieceOfAGradient) {
  WithGroup(2, [](const auto& group, int rank) {
    TwoHeads model;
    Reducer reducer(model.parameters, group,
                    {.limits = {.first_bytes = 1, .cap_bytes = 1}, .static_graph = true});
    for (int step = 0; step < 3; ++step) {
      reducer.BeginStep();
      reducer.PrepareBackward(true);
      // As checkpointing does it: one gradient comes from two calls of the engine in one backward.
      const at::Tensor x = Random({5, 4}, 10 + rank);
      at::Tensor hidden = at::matmul(x, model.parameters[0].tensor);
      hidden.register_hook([&](const at::Tensor&) {
        const at::AutoGradMode enabled(true);
        at::matmul(x, model.parameters[0].tensor).sum().backward();
      });
      at::matmul(hidden, model.parameters[1].tensor).sum().backward();
      at::Tensor expected = at::zeros({4, 8});
      for (int r = 0; r < 2; ++r) {
        const at::Tensor input = Random({5, 4}, 10 + r);
        expected += at::matmul(input.t(), at::ones({5, 8}));
        expected += at::matmul(
            input.t(), at::matmul(at::ones({5, 3}), model.parameters[1].tensor.detach().t()));
      }
      EXPECT_TRUE(at::allclose(model.grad(0), expected / 2, 1e-5, 1e-5)) << "step " << step;
      EXPECT_FALSE(model.grad(2).defined()) << "unused in every step";
    }
  });
}

TEST(StaticGraph, NamesAParameterThatWasUsedAndIsNoMore) {
  WithGroup(2, [](const auto& group, int rank) {
    TwoHeads model;
    Reducer reducer(model.parameters, group, {.static_graph = true});
    reducer.PrepareBackward(true);
    model.Loss(rank, true, true).backward();
    reducer.BeginStep();
    reducer.PrepareBackward(true);
    try {
      model.Loss(rank, true, false).backward();
      ADD_FAILURE() << "no error";
    } catch (const Failure& failure) {
      EXPECT_NE(failure.error().what.find("head.b"), std::string::npos) << failure.error().what;
    }
  });
}

TEST(Shadow, ARankWithoutDataGivesZeros) {
  WithGroup(2, [](const auto& group, int rank) {
    TwoHeads model;
    Reducer reducer(model.parameters, group, {.limits = {.first_bytes = 1, .cap_bytes = 1}});
    for (int step = 0; step < 3; ++step) {
      reducer.BeginStep();
      if (rank == 1 && step > 0) {
        reducer.ShadowBackward();
        continue;
      }
      reducer.PrepareBackward(true);
      model.Loss(rank, true, true).backward();
      const std::vector<std::pair<bool, bool>> heads = {{true, true}, {step == 0, step == 0}};
      EXPECT_TRUE(at::allclose(model.grad(1), Average(1, heads), 1e-6, 1e-7));
    }
  });
}

TEST(BadGradient, NamesTheParameterWithoutAFiniteOne) {
  WithGroup(1, [](const auto& group, int rank) {
    TwoHeads model;
    Reducer reducer(model.parameters, group, {.check_finite = true});
    reducer.PrepareBackward(true);
    const at::Tensor loss =
        model.Loss(rank, true, true) +
        model.parameters[2].tensor.sum() * std::numeric_limits<float>::quiet_NaN();
    try {
      loss.backward();
      ADD_FAILURE() << "no error";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().what, "head.b has a gradient with infinities or NaNs.");
    }
  });
}

TEST(CommHook, CompressedGradientsAreTheAverageOfRoundedOnes) {
  WithGroup(2, [](const auto& group, int rank) {
    for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
      TwoHeads model;
      Reducer reducer(
          model.parameters, group,
          {.limits = {.first_bytes = 1, .cap_bytes = 1}, .comm_hook = MakeCompressHook(type)});
      for (int step = 0; step < 3; ++step) {
        reducer.BeginStep();
        reducer.PrepareBackward(true);
        model.Loss(rank, true, true).backward();
        at::Tensor sum = at::zeros({8, 3});
        for (int r = 0; r < 2; ++r) {
          TwoHeads other;
          other.Loss(r, true, true).backward();
          sum += other.grad(1).to(type).to(at::kFloat);
        }
        EXPECT_TRUE(at::equal(model.grad(1), (sum / 2).to(type).to(at::kFloat)));
      }
    }
  });
}

// A hook of one's own that fails on one rank: that rank's backward says so.
class Failing : public CommHook {
 public:
  std::function<void()> Start(GradientBucket&, c10d::Backend&) override {
    throw Failure(Error{.code = Code::kFailed,
                        .title = "HOOK",
                        .where = "",
                        .what = "my hook failed",
                        .hint = "",
                        .page = ""});
  }
};

TEST(CommHook, AnExceptionLeavesBackward) {
  WithGroup(1, [](const auto& group, int rank) {
    TwoHeads model;
    Reducer reducer(model.parameters, group, {.comm_hook = std::make_shared<Failing>()});
    reducer.PrepareBackward(true);
    EXPECT_THROW(model.Loss(rank, true, true).backward(), Failure);
  });
}

}  // namespace
}  // namespace ddprun::trainer
