#include "trainer/models/generate.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "trainer/models/gpt.h"
#include "trainer/models/llama.h"

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

struct GenerateOptions {
  std::string prompt = "\n";
  int64_t length = 0;
  double temperature = 0.8;
  int64_t top_k = 40;
  uint64_t seed = 42;
};

// Returns the bytes that a byte-level model generates.
std::string Generate(LanguageModel& model, const GenerateOptions& options) {
  const std::vector<int64_t> prompt(options.prompt.begin(), options.prompt.end());
  std::string text;
  for (const int64_t token : GenerateTokens(model, prompt, options.length,
                                            {.temperature = options.temperature,
                                            .top_k = options.top_k,
                                            .seed = options.seed,
                                            .vocab_size = 256})) {
    text.push_back(static_cast<char>(token));
  }
  return text;
}

TEST(Generate, FollowsTheLikeliestByteAtTemperatureZero) {
  CountingModel model;
  EXPECT_EQ(Generate(model, {.prompt = "a", .length = 5, .temperature = 0}), "bcdef");
}

TEST(Generate, EndsAtAnyStopToken) {
  CountingModel model;
  const std::vector<int64_t> prompt = {'a'};
  EXPECT_EQ(GenerateTokens(model, prompt, 9,
                           {.temperature = 0, .stop_tokens = {'z', 'e'}, .vocab_size = 256}),
            (std::vector<int64_t>{'b', 'c', 'd'}));
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

// Another model that keeps no keys: all tokens are computed anew for each.
class WithoutCache final : public LanguageModel {
 public:
  explicit WithoutCache(std::shared_ptr<LanguageModel> model) : model_(std::move(model)) {
    register_module("model", model_);
  }

  at::Tensor Outputs(const Batch& batch) override { return model_->Outputs(batch); }
  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) override {
    return model_->LossFrom(outputs, batch);
  }
  std::string ConfigJson() const override { return model_->ConfigJson(); }
  at::Tensor Logits(const at::Tensor& inputs) override { return model_->Logits(inputs); }
  int64_t context_length() const override { return model_->context_length(); }
  int64_t vocab_size() const override { return model_->vocab_size(); }

 private:
  const std::shared_ptr<LanguageModel> model_;
};

// Weights so large that the scores differ clearly.
std::shared_ptr<LanguageModel> Sharpened(std::shared_ptr<LanguageModel> model) {
  const at::NoGradGuard no_grad;
  model->Initialize();
  for (at::Tensor& parameter : model->parameters()) {
    if (parameter.dim() > 1) parameter.mul_(8.0);
  }
  return model;
}

std::vector<std::shared_ptr<LanguageModel>> SharpModels() {
  at::set_num_threads(1);  // threads of this size wait for each other longer than they work
  at::manual_seed(3);
  const TransformerOptions sizes{.vocab_size = 60,
                                 .max_position_embeddings = 40,
                                 .hidden_size = 32,
                                 .num_hidden_layers = 2,
                                 .num_attention_heads = 4,
                                 .intermediate_size = 48};
  LlamaOptions grouped{sizes};
  grouped.num_key_value_heads = 2;
  LlamaOptions scaled{sizes};
  scaled.rope_scaling = {.type = RopeScaling::Type::kLinear, .factor = 2.0};
  return {Sharpened(MakeGpt({sizes})), Sharpened(MakeLlama(grouped)), Sharpened(MakeLlama(scaled))};
}

TEST(GenerateTokens, IsTheSameWithAndWithoutKeptKeysUpToTheContextAndBeyond) {
  const std::vector<int64_t> prompt = {7, 1, 30, 30, 2};
  for (const auto& model : SharpModels()) {
    WithoutCache anew(model);
    for (const double temperature : {0.0, 1.0}) {
      const SamplingOptions options{.temperature = temperature, .top_k = 0, .top_p = 0.9};
      const auto tokens = GenerateTokens(*model, prompt, 48, options);
      EXPECT_EQ(tokens.size(), 48);
      EXPECT_EQ(tokens, GenerateTokens(anew, prompt, 48, options));
    }
  }
}

TEST(NextScores, AreTheLastOfTheLogits) {
  const at::NoGradGuard no_grad;
  const at::Tensor text = at::arange(2 * 40, at::kLong).view({2, 40}).remainder(60);
  for (const auto& model : SharpModels()) {
    model->eval();
    const at::Tensor logits = model->Logits(text);
    KeyValueCache cache;
    at::Tensor scores = model->NextScores(text.narrow(1, 0, 3), cache);
    for (int64_t length = 3; length < 40; ++length) {
      EXPECT_LT((scores - logits.select(1, length - 1)).abs().max().item<double>(), 1e-4);
      scores = model->NextScores(text.narrow(1, length, 1), cache);
      EXPECT_EQ(cache.length(), length + 1);
    }
  }
}

TEST(NextScores, RefusesMoreTokensThanTheContextHas) {
  const at::NoGradGuard no_grad;
  for (const auto& model : SharpModels()) {
    KeyValueCache cache;
    model->NextScores(at::zeros({1, 40}, at::kLong), cache);
    EXPECT_THROW(model->NextScores(at::zeros({1, 1}, at::kLong), cache), Failure);
  }
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
