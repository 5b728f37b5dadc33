// A small model of each kind.
#pragma once

#include <map>
#include <string>

#include "trainer/models/registry.h"

namespace ddprun::trainer {

// Texts of 12 tokens below 20, images of 3 x 32 x 32, 48 numbers; 3 classes.
inline std::map<std::string, ModelOptions> SmallModels(double dropout = 0) {
  const TransformerOptions sizes{.vocab_size = 20,
                                 .max_position_embeddings = 12,
                                 .hidden_size = 16,
                                 .num_hidden_layers = 3,
                                 .num_attention_heads = 2,
                                 .attention_dropout = dropout};
  GptOptions gpt{sizes};
  gpt.dropout = gpt.embedding_dropout = dropout;
  BertOptions bert{sizes};
  bert.num_labels = 3;
  bert.dropout = bert.classifier_dropout = dropout;
  const CnnOptions cnn{
      .image = {3, 32, 32}, .hidden_size = 16, .num_labels = 3, .dropout = dropout};
  return {{"gpt", gpt},
          {"bert", bert},
          {"llama", LlamaOptions{sizes}},
          {"mlp", MlpOptions{.sizes = {48, 7, 5, 3}, .activation = Activation::kGelu}},
          {"cnn", cnn},
          {"resnet18", ResNetOptions{.depth = 18, .num_labels = 3}},
          {"resnet50", ResNetOptions{.depth = 50, .num_labels = 3}}};
}

}  // namespace ddprun::trainer
