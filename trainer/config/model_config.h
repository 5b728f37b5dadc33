// Section "model" of a config; see config.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/value_types.h"

namespace ddprun::trainer {

enum class ModelType {
  kGpt,
  kMlp,
  kBert,
  kLlama,
  kLinear,
  kCnn,
  kResNet18,
  kResNet34,
  kResNet50,
  kResNet101,
  kTorchScript,
  kPlugin
};
constexpr bool IsTransformer(ModelType type) {
  return type == ModelType::kBert || type == ModelType::kGpt || type == ModelType::kLlama;
}

enum class Activation { kRelu, kNone, kGelu };

struct ModelConfig {
  ModelType type = ModelType::kGpt;
  std::string name_or_path;  // a folder with model.safetensors; "" means new weights
  std::string adapter;       // a folder of peft; "" means new matrices
  // Keys of this section that the file or an override sets. They must agree with the folder, from
  // which all other keys are taken.
  std::vector<std::string> given;
  int64_t hidden_size = 128;
  int64_t num_hidden_layers = 4;
  int64_t num_attention_heads = 4;
  int64_t intermediate_size = 0;  // ReadConfig() turns 0 into 4 * hidden_size
  int64_t vocab_size = 256;
  int64_t max_position_embeddings = 0;  // tokens; ReadConfig() turns 0 into data.max_seq_length
  double dropout = 0.0;                 // probabilities
  double attention_dropout = 0.0;       // by default ReadConfig() sets it to `dropout`
  double embedding_dropout = 0.0;       // gpt; by default `dropout`
  double classifier_dropout = 0.0;      // bert; by default `dropout`
  int64_t type_vocab_size = 2;          // bert: kinds of texts in an input
  int64_t num_labels = 2;               // bert: classes; 1 means a number
  bool tie_word_embeddings = true;      // gpt, llama
  int64_t num_key_value_heads = 0;      // llama; 0 means num_attention_heads
  int64_t head_dim = 0;                 // llama; ReadConfig() turns 0 into hidden_size / heads
  double rms_norm_eps = 1e-6;           // llama
  double rope_theta = 10000.0;          // llama
  JsonText rope_scaling;                // llama: as in transformers' config.json; {} means none
  bool attention_bias = false;          // llama
  bool mlp_bias = false;                // llama
  std::vector<int64_t> layer_sizes;     // mlp: input, hidden layers, output
  Activation activation = Activation::kRelu;  // mlp: between the layers, not after the last
  std::vector<int64_t> channels = {32, 64};   // cnn: for each stage
  std::string path;                           // torchscript, plugin: the file
  JsonText options;                           // plugin: passed to its code
};

}  // namespace ddprun::trainer
