// The stages of the built-in models, and training that recomputes them.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/trainer/compute/largest_difference.h"
#include "tests/trainer/models/small_models.h"
#include "trainer/compute/device.h"
#include "trainer/compute/precision.h"
#include "trainer/compute/recompute.h"

namespace ddprun::trainer {
namespace {

class StagesTest : public testing::TestWithParam<const char*> {
 protected:
  static std::shared_ptr<Model> MakeOne() {
    at::manual_seed(4);
    return MakeModel(SmallModels(0.3).at(GetParam()));
  }

  static Batch BatchOf(const Model& model) {
    const bool tokens = dynamic_cast<const LanguageModel*>(&model) != nullptr;
    if (tokens || std::string(GetParam()) == "bert") {
      Batch batch{.inputs = at::randint(20, {4, 12}, at::kLong), .targets = {}, .samples = 4};
      batch.targets = tokens ? at::randint(20, {4, 12}, at::kLong) : at::randint(3, {4}, at::kLong);
      batch.attention_mask = at::ones({4, 12}, at::kLong);
      batch.attention_mask.narrow(0, 1, 2).narrow(1, 5, 7).zero_();
      batch.predictions = batch.targets.numel();
      return batch;
    }
    const at::Tensor inputs =
        std::string(GetParam()) == "mlp" ? at::randn({4, 48}) : at::randn({4, 3, 32, 32});
    return {.inputs = inputs,
            .targets = at::randint(3, {4}, at::kLong),
            .samples = 4,
            .predictions = 4};
  }

  // Losses, then what two accumulated backwards left: gradients, buffers, the next random number.
  static std::vector<at::Tensor> Train(Model& model, Precision precision) {
    at::manual_seed(5);
    const Batch batch = BatchOf(model);
    std::vector<at::Tensor> left;
    for (int i = 0; i < 2; ++i) {
      at::Tensor loss;
      {
        const PrecisionScope scope(precision);
        loss = model.Loss(batch);
      }
      loss.backward();
      left.push_back(loss.detach());
    }
    for (const at::Tensor& parameter : model.parameters()) left.push_back(parameter.grad());
    for (const at::Tensor& buffer : model.buffers()) left.push_back(buffer);
    left.push_back(at::rand({1}));
    return left;
  }
};

TEST_P(StagesTest, HoldAllParameters) {
  const auto model = MakeOne();
  std::set<const void*> found;
  for (const Stage& stage : model->Stages(BatchOf(*model))) {
    for (const at::Tensor& parameter : model->ParametersOf(stage)) {
      found.insert(parameter.const_data_ptr());
    }
  }
  EXPECT_EQ(found.size(), model->parameters().size());
}

TEST_P(StagesTest, PassThroughTheHookInTheirOrder) {
  const auto model = MakeOne();
  model->eval();
  const Batch batch = BatchOf(*model);
  const at::Tensor expected = model->Outputs(batch);
  std::vector<std::vector<std::string>> seen;
  model->SetStageHook([&](const Stage& stage, const at::Tensor& x) {
    seen.push_back(stage.modules);
    return stage.forward(x);
  });
  EXPECT_TRUE(model->Outputs(batch).equal(expected));
  std::vector<std::vector<std::string>> stages;
  for (const Stage& stage : model->Stages(batch)) stages.push_back(stage.modules);
  EXPECT_EQ(seen, stages);
}

TEST_P(StagesTest, ThatAreRecomputedGiveTheSameBits) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const auto plain = MakeOne();
    const auto recomputed = MakeOne();
    RecomputeBlocks(*recomputed);
    const auto expected = Train(*plain, precision);
    const auto found = Train(*recomputed, precision);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
  }
}

TEST_P(StagesTest, GiveInTheFormsOfADeviceWhatTheyGiveOnTheCpu) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const auto train = [&] {
      at::manual_seed(4);
      return Train(*MakeModel(SmallModels().at(GetParam())), precision);
    };
    const auto expected = train();
    const DeviceOperatorsOnly scope;
    const auto found = train();
    const double tolerance = precision == Precision::kFp32 ? 1e-5 : 3e-2;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double size = expected[i].to(at::kDouble).abs().max().item<double>();
      // Some gradients, as those of the biases of keys, are nothing but rounding.
      EXPECT_LE(LargestDifference(found[i], expected[i]), tolerance * (size + 1e-3)) << i;
    }
  }
}

TEST_P(StagesTest, ThatAreRecomputedLeaveFrozenParametersAlone) {
  const auto model = MakeOne();
  RecomputeBlocks(*model);
  std::vector<at::Tensor> parameters = model->parameters();
  for (size_t i = 0; i + 2 < parameters.size(); i += 2) parameters[i].set_requires_grad(false);
  model->Loss(BatchOf(*model)).backward();
  for (const at::Tensor& parameter : parameters) {
    EXPECT_EQ(parameter.grad().defined(), parameter.requires_grad());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    StagesTest,
    testing::Values("gpt", "llama", "bert", "mlp", "cnn", "resnet18", "resnet50"),
    [](const auto& test) { return std::string(test.param); });

// A recomputed block keeps its input, not its intermediate results.
TEST(RunWithRecompute, CallsForwardAgainInBackward) {
  int calls = 0;
  const at::Tensor weight = at::ones({2}).set_requires_grad(true);
  const at::Tensor x = at::ones({2});
  const at::Tensor y = RunWithRecompute(
      [&](const at::Tensor& in) {
        ++calls;
        EXPECT_EQ(IsRecomputing(), calls == 2);
        return in * weight;
      },
      x, {weight});
  EXPECT_EQ(calls, 1);
  y.sum().backward();
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(weight.grad().equal(x));
}

}  // namespace
}  // namespace ddprun::trainer
