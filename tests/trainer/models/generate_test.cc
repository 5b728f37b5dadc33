#include "trainer/models/generate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace ddprun::trainer {
namespace {

// After byte b it is sure of b + 1, second best b + 2; beyond the bytes it likes token 299 best.
class CountingModel final : public LanguageModel {
 public:
  CountingModel() { AddParameter("scale", {1}).detach().fill_(1.0); }

  at::Tensor Outputs(const Batch& batch) override { return Logits(batch.inputs); }
  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& /*batch*/) override {
    return outputs.sum();
  }
  std::string ConfigJson() const override { return "{}"; }

  at::Tensor Logits(const at::Tensor& inputs) override {
    longest = std::max(longest, inputs.size(1));
    training_seen = training_seen || is_training();
    gradients_seen = gradients_seen || at::GradMode::is_enabled();
    at::Tensor logits = at::full({1, inputs.size(1), 300}, -10.0);
    for (int64_t i = 0; i < inputs.size(1); ++i) {
      const auto byte = inputs[0][i].item<int64_t>();
      logits[0][i][(byte + 1) % 256] = 2.0;
      logits[0][i][(byte + 2) % 256] = 1.0;
      logits[0][i][299] = 50.0;
    }
    return logits;
  }
  int64_t context_length() const override { return 4; }
  int64_t vocab_size() const override { return 300; }

  int64_t longest = 0;
  bool training_seen = false;
  bool gradients_seen = false;
};

TEST(Generate, FollowsTheLikeliestByteAtTemperatureZero) {
  CountingModel model;
  EXPECT_EQ(Generate(model, {.prompt = "a", .length = 5, .temperature = 0}), "bcdef");
}

TEST(Generate, StartsAfterALineFeedWithoutAPrompt) {
  CountingModel model;
  EXPECT_EQ(Generate(model, {.length = 1, .temperature = 0}), "\x0b");
}

TEST(Generate, ShowsTheModelNoMoreThanItsContext) {
  CountingModel model;
  Generate(model, {.prompt = "a long prompt", .length = 10});
  EXPECT_EQ(model.longest, 4);
}

TEST(Generate, NeitherTrainsNorRecordsGradientsAndRestoresTheMode) {
  CountingModel model;
  model.train();
  Generate(model, {.length = 3});
  EXPECT_FALSE(model.training_seen);
  EXPECT_FALSE(model.gradients_seen);
  EXPECT_TRUE(model.is_training());
}

TEST(Generate, RepeatsItselfWithTheSameSeedOnly) {
  CountingModel model;
  const auto text = [&](uint64_t seed) {
    return Generate(model, {.prompt = "a", .length = 40, .temperature = 1.0, .seed = seed});
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(Generate, DrawsAmongTheTopKOnly) {
  CountingModel model;
  std::set<char> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const GenerateOptions options{
        .prompt = "a", .length = 1, .temperature = 100, .top_k = 2, .seed = seed};
    seen.insert(Generate(model, options)[0]);
  }
  EXPECT_EQ(seen, (std::set<char>{'b', 'c'}));
}

TEST(Generate, DrawsTheLikeliestMoreOftenAtALowTemperature) {
  CountingModel model;
  const auto count = [&](double temperature) {
    int likeliest = 0;
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const GenerateOptions options{
          .prompt = "a", .length = 1, .temperature = temperature, .top_k = 2, .seed = seed};
      likeliest += Generate(model, options) == "b";
    }
    return likeliest;
  };
  EXPECT_GT(count(0.2), 95);
  EXPECT_LT(count(10.0), 75);
}

}  // namespace
}  // namespace ddprun::trainer
