// What LoRA does to a model's forward pass; tests/trainer/loop/lora_test.py trains beside peft.
#include "trainer/models/lora.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "tests/trainer/models/small_models.h"
#include "trainer/compute/device.h"
#include "trainer/compute/precision.h"

namespace ddprun::trainer {
namespace {

class LoraTest : public testing::TestWithParam<const char*> {
 protected:
  // Returns a model with matrices that are not zero, and equal weights each time.
  static std::shared_ptr<Model> Make(double dropout, int64_t r = 2) {
    ModelOptions options = SmallModels().at(GetParam());
    TransformerIn(options)->lora = {.r = r, .dropout = dropout, .target_modules = {"all-linear"}};
    SeedGenerators(at::kCPU, 3);
    auto model = MakeModel(options);
    const at::NoGradGuard no_grad;
    for (auto& item : model->named_parameters()) {
      if (item.key().ends_with("lora_B.weight")) item.value().normal_();
    }
    return model;
  }
  static Batch Texts() {
    Batch batch;
    batch.inputs = at::arange(24).remainder(20).view({2, 12});
    batch.samples = 2;
    const bool classes = std::string(GetParam()) == "bert";
    batch.targets = classes ? at::arange(2) : batch.inputs.roll(-1);
    batch.predictions = batch.targets.numel();
    return batch;
  }
  static at::Tensor OutputsOf(Model& model) {
    SeedGenerators(at::kCPU, 4);
    return model.Outputs(Texts()).detach();
  }
};

TEST_P(LoraTest, DropsValuesInTrainingAlone) {
  const auto plain = Make(0);
  const auto drops = Make(0.5);
  plain->train();
  drops->train();
  EXPECT_FALSE(OutputsOf(*drops).allclose(OutputsOf(*plain)));
  drops->eval();
  EXPECT_TRUE(OutputsOf(*drops).equal(OutputsOf(*plain)));
  // Only the input of the matrices is dropped: without them nothing is.
  drops->train();
  const at::NoGradGuard no_grad;
  for (auto& item : drops->named_parameters()) {
    if (item.key().ends_with("lora_B.weight")) item.value().zero_();
  }
  EXPECT_TRUE(OutputsOf(*drops).equal(OutputsOf(*Make(0, /*r=*/0))));
}

TEST_P(LoraTest, IsRecomputedWithTheSameBits) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const PrecisionScope scope(precision);
    const auto gradients = [](Model& model) {
      model.train();
      SeedGenerators(at::kCPU, 4);
      model.Loss(Texts()).backward();
      std::vector<at::Tensor> found;
      for (const auto& item : model.named_parameters()) {
        EXPECT_EQ(item.value().grad().defined(), IsOfAdapter(item.key())) << item.key();
        if (item.value().grad().defined()) found.push_back(item.value().grad());
      }
      return found;
    };
    const auto plain = Make(0.5);
    const auto recomputed = Make(0.5);
    RecomputeBlocks(*recomputed);
    const auto expected = gradients(*plain);
    const auto found = gradients(*recomputed);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(found[i].equal(expected[i])) << i;
      EXPECT_GT(found[i].abs().max().item<double>(), 0) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         LoraTest,
                         testing::Values("gpt", "llama", "bert"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace ddprun::trainer
