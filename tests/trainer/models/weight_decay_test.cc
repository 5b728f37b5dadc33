// Which parameters decay under the default of optimizer.no_decay: the matrices, no bias, no norm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <ddprun/optimizer.h>
#include "trainer/config/config.h"
#include "trainer/models/registry.h"

namespace ddprun::trainer {
namespace {

using testing::UnorderedElementsAre;
using testing::UnorderedElementsAreArray;

std::vector<std::string> DecayingNames(const Model& model) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const auto& item : model.named_parameters()) named.emplace_back(item.key(), item.value());
  std::vector<std::string> names;
  for (const ParameterGroup& group : GroupByDecay(named, OptimizerConfig{}.no_decay, 0.1)) {
    if (group.weight_decay == 0.0) continue;
    for (const at::Tensor& parameter : group.parameters) {
      const auto same = [&](const auto& item) { return item.second.is_same(parameter); };
      names.push_back(std::ranges::find_if(named, same)->first);
    }
  }
  return names;
}

std::vector<std::string> DecayingNames(const ModelOptions& options) {
  return DecayingNames(*MakeModel(options));
}

const TransformerOptions kOneBlock{.vocab_size = 11,
                                   .max_position_embeddings = 4,
                                   .hidden_size = 8,
                                   .num_hidden_layers = 1,
                                   .num_attention_heads = 2};

TEST(DefaultDecay, OfBertIsThatOfItsMatrices) {
  const std::string layer = "bert.encoder.layer.0.";
  EXPECT_THAT(
      DecayingNames(BertOptions{kOneBlock}),
      UnorderedElementsAre(
          "bert.embeddings.word_embeddings.weight", "bert.embeddings.position_embeddings.weight",
          "bert.embeddings.token_type_embeddings.weight", layer + "attention.self.query.weight",
          layer + "attention.self.key.weight", layer + "attention.self.value.weight",
          layer + "attention.output.dense.weight", layer + "intermediate.dense.weight",
          layer + "output.dense.weight", "bert.pooler.dense.weight", "classifier.weight"));
}

TEST(DefaultDecay, OfGptIsThatOfItsMatrices) {
  EXPECT_THAT(DecayingNames(GptOptions{kOneBlock}),
              UnorderedElementsAre(
                  "transformer.wte.weight", "transformer.wpe.weight",
                  "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_proj.weight",
                  "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_proj.weight"));
}

TEST(DefaultDecay, OfLlamaIsThatOfItsMatrices) {
  LlamaOptions options{kOneBlock};
  options.tie_word_embeddings = false;
  options.attention_bias = true;
  options.mlp_bias = true;
  const std::string layer = "model.layers.0.";
  EXPECT_THAT(DecayingNames(options),
              UnorderedElementsAre(
                  "model.embed_tokens.weight", layer + "self_attn.q_proj.weight",
                  layer + "self_attn.k_proj.weight", layer + "self_attn.v_proj.weight",
                  layer + "self_attn.o_proj.weight", layer + "mlp.gate_proj.weight",
                  layer + "mlp.up_proj.weight", layer + "mlp.down_proj.weight", "lm_head.weight"));
}

TEST(DefaultDecay, OfLinearLayersIsThatOfTheirWeights) {
  EXPECT_THAT(DecayingNames(MlpOptions{.sizes = {4, 3, 2}}),
              UnorderedElementsAre("layers.0.weight", "layers.1.weight"));
}

TEST(DefaultDecay, OfTheCnnIsThatOfItsWeights) {
  EXPECT_THAT(DecayingNames(CnnOptions{.image = {1, 8, 8}, .hidden_size = 8}),
              UnorderedElementsAre("conv1.weight", "conv2.weight", "fc1.weight", "fc2.weight"));
}

TEST(DefaultDecay, OfResNetsIsThatOfConvolutionsAndTheLastLayer) {
  for (const int64_t depth : {18, 50}) {
    const ResNetOptions options{.depth = depth, .num_labels = 10};
    const auto model = MakeModel(options, {}, /*initialize=*/false);
    std::vector<std::string> matrices;
    for (const auto& item : model->named_parameters()) {
      if (item.value().dim() > 1) matrices.push_back(item.key());
    }
    ASSERT_GT(matrices.size(), 20);
    EXPECT_THAT(DecayingNames(*model), UnorderedElementsAreArray(matrices));
  }
}

TEST(DefaultDecay, KnowsTheNormsOfOtherModels) {
  const at::Tensor parameter;
  const auto decays = [&](const std::string& name) {
    const auto groups = GroupByDecay({{name, parameter}}, OptimizerConfig{}.no_decay, 0.1);
    return groups[0].weight_decay > 0;
  };
  for (const char* name :
       {"blocks.0.norm1.weight", "layers.0.post_attention_layernorm.weight",
        "encoder.layer_norm.weight", "features.batchnorm0.weight", "features.batch_norm.weight",
        "layers.0.self_attn.q_norm.weight", "layers.0.ffn_norm.weight",
        "decoder.final_layer_norm.weight", "rmsnorm.weight", "mid.group_norm.weight",
        "attn.in_proj_bias", "lstm.bias_ih_l0"}) {
    EXPECT_FALSE(decays(name)) << name;
  }
  for (const char* name : {"subnet.weight", "normal_head.weight", "pln.weight", "unbiased.weight",
                           "denormalize.weight", "layer2.0.downsample.0.weight"}) {
    EXPECT_TRUE(decays(name)) << name;
  }
}

}  // namespace
}  // namespace ddprun::trainer
