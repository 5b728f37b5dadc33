// BERT, GPT-2 and Llama against transformers under PyTorch's DistributedDataParallel, from folders
// that transformers wrote (tests/golden). Two ranks are played by one process: their gradients are
// averaged by hand.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include <ddprun/optimizer.h>
#include "tests/golden/golden_file.h"
#include "trainer/models/bert.h"
#include "trainer/models/pretrained.h"

namespace ddprun::trainer {
namespace {

using nlohmann::json;

at::Tensor Integers(const json& batch, const char* key) {
  if (!batch.contains(key)) return {};
  return golden::FloatTensor(batch.at(key)).to(at::kLong);
}

Batch BatchFrom(const json& values) {
  Batch batch{.inputs = Integers(values, "inputs"),
              .targets = Integers(values, "targets"),
              .attention_mask = Integers(values, "attention_mask"),
              .token_type_ids = Integers(values, "token_type_ids")};
  batch.samples = batch.inputs.size(0);
  batch.predictions = (batch.targets != -100).sum().item<int64_t>();
  return batch;
}

class TransformersTest : public testing::TestWithParam<const char*> {
 protected:
  TransformersTest() : all_(golden::Read("transformer_losses.json")) {
    // As in the script; and threads of this size wait for each other longer than they work.
    at::set_num_threads(1);
    for (const json& values : golden_.at("batches")) batches_.push_back(BatchFrom(values));
    LoadWeights(*model_, golden::Path(GetParam()));
  }

  const json all_;
  const json& golden_ = all_.at("cases").at(GetParam());
  const std::shared_ptr<Model> model_ = MakeModel(ReadModelOptions(golden::Path(GetParam())));
  std::vector<Batch> batches_;
};

TEST_P(TransformersTest, GivesTheSameOutputs) {
  const at::NoGradGuard no_grad;
  const at::Tensor expected = golden::FloatTensor(golden_.at("outputs_of_counted"));
  const at::Tensor outputs = model_->Outputs(batches_[0]).flatten(0, -2);
  const at::Tensor counted = (batches_[0].targets.flatten() != -100).nonzero().squeeze(1);
  const at::Tensor found = outputs.index_select(0, counted).narrow(0, 0, expected.size(0));
  const auto difference = (found - expected).abs().max().item<double>();
  EXPECT_LT(difference, 1e-5);
  std::cout << "largest difference: " << difference << "\n";
}

TEST_P(TransformersTest, TrainsAlikeOverThirtySteps) {
  const auto optimizer =
      MakeOptimizer({.kind = OptimizerType::kAdam}, {{model_->parameters(), 0.0}});
  double largest_difference = 0;
  const auto& losses = golden_.at("losses");
  ASSERT_EQ(losses.size(), 30);
  for (const json& expected : losses) {
    model_->zero_grad();
    double loss = 0;
    for (const Batch& batch : batches_) {
      const at::Tensor share = model_->Loss(batch) / static_cast<double>(batches_.size());
      share.backward();
      loss += share.item<double>();
    }
    largest_difference = std::max(largest_difference, std::abs(loss - expected.get<double>()));
    optimizer->Step(all_.at("learning_rate").get<double>());
  }
  EXPECT_LT(largest_difference, 1e-4);
  std::cout << "largest difference: " << largest_difference << "\n";
}

TEST_P(TransformersTest, LossOfNoPredictionIsZeroWithAGraph) {
  Batch batch = batches_[0];
  batch.targets = at::full_like(batch.targets, -100);
  batch.predictions = 0;
  const at::Tensor loss = model_->Loss(batch);
  loss.backward();
  EXPECT_EQ(loss.item<double>(), 0.0);
  for (const auto& parameter : model_->named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    EXPECT_EQ(parameter.value().grad().abs().max().item<double>(), 0.0) << parameter.key();
  }
}

TEST_P(TransformersTest, PaddingChangesNothing) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = at::arange(1, 13, at::kLong).view({2, 6});
  Batch batch;
  batch.inputs = ids;
  const at::Tensor plain = model_->Outputs(batch);
  for (const int64_t length : {7, 9, 16}) {
    batch.inputs = at::zeros({2, length}, at::kLong);
    batch.attention_mask = at::zeros({2, length}, at::kLong);
    batch.inputs.narrow(1, 0, 6).copy_(ids);
    batch.attention_mask.narrow(1, 0, 6).fill_(1);
    at::Tensor padded = model_->Outputs(batch);
    if (padded.dim() == 3) padded = padded.narrow(1, 0, 6);
    EXPECT_LT((padded - plain).abs().max().item<double>(), 1e-5) << length;
  }
}

constexpr std::array<int64_t, 4> kLengths = {3, 17, 1, 30};
constexpr int64_t kLongest = 40;

// Texts of kLengths, padded with other words than the padding token.
Batch PaddedTexts() {
  const auto texts = static_cast<int64_t>(kLengths.size());
  const at::Tensor numbers = at::arange(texts * kLongest, at::kLong);
  Batch batch;
  batch.inputs = numbers.remainder(23).add(1).view({texts, kLongest});
  batch.token_type_ids = numbers.remainder(2).view({texts, kLongest});
  batch.attention_mask = at::zeros({texts, kLongest}, at::kLong);
  batch.targets = at::arange(texts, at::kLong).remainder(2);
  batch.samples = batch.predictions = texts;
  for (int64_t i = 0; i < texts; ++i) {
    batch.attention_mask.select(0, i).narrow(0, 0, kLengths[i]).fill_(1);
  }
  return batch;
}

Batch OneText(const Batch& all, int64_t i) {
  const auto part = [&](const at::Tensor& of) {
    return of.narrow(0, i, 1).narrow(1, 0, kLengths[i]);
  };
  Batch batch;
  batch.inputs = part(all.inputs);
  batch.token_type_ids = part(all.token_type_ids);
  batch.targets = all.targets.narrow(0, i, 1);
  batch.samples = batch.predictions = 1;
  return batch;
}

std::shared_ptr<Model> SmallBert() {
  at::manual_seed(5);
  return MakeModel(BertOptions{{.vocab_size = 30,
                                .max_position_embeddings = kLongest,
                                .hidden_size = 16,
                                .num_hidden_layers = 3,
                                .num_attention_heads = 2,
                                .intermediate_size = 24}});
}

TEST(BertPadding, LeavesGradientsAsTheyAreOfEachTextAlone) {
  const auto together = SmallBert();
  const auto alone = SmallBert();
  const Batch batch = PaddedTexts();
  together->Loss(batch).backward();
  for (int64_t i = 0; i < batch.samples; ++i) {
    (alone->Loss(OneText(batch, i)) / static_cast<double>(batch.samples)).backward();
  }
  const auto expected = alone->named_parameters();
  for (const auto& parameter : together->named_parameters()) {
    const at::Tensor of_alone = expected[parameter.key()].grad();
    EXPECT_LE((parameter.value().grad() - of_alone).abs().max().item<double>(),
              1e-6 + 1e-5 * of_alone.abs().max().item<double>())
        << parameter.key();
  }
}

TEST(BertPadding, MayStandAnywhere) {
  const at::NoGradGuard no_grad;
  const auto model = SmallBert();
  Batch batch = PaddedTexts();
  batch.attention_mask.select(0, 3).narrow(0, 5, 4).zero_();  // within a text
  batch.attention_mask.select(0, 1).select(0, 0).zero_();     // its first token
  const at::Tensor outputs = model->Outputs(batch);
  batch.inputs = at::where(batch.attention_mask == 0, 29, batch.inputs);
  batch.inputs.select(1, 0).copy_(PaddedTexts().inputs.select(1, 0));
  EXPECT_TRUE(at::equal(model->Outputs(batch), outputs));
  batch.inputs.select(0, 1).select(0, 0).add_(1);
  EXPECT_FALSE(at::equal(model->Outputs(batch), outputs));
}

INSTANTIATE_TEST_SUITE_P(Folders,
                         TransformersTest,
                         testing::Values("bert_init", "gpt_init", "llama_init"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace ddprun::trainer
