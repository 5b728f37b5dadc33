// Section "model" of a config; see config.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::trainer {

enum class ModelType { kGpt, kMlp };
enum class Activation { kRelu, kNone, kGelu };

struct ModelConfig {
  ModelType type = ModelType::kGpt;
  std::string name_or_path;  // a folder with model.safetensors to start from; empty: fresh weights
  int64_t hidden_size = 128;
  int64_t num_hidden_layers = 4;
  int64_t num_attention_heads = 4;
  int64_t intermediate_size = 0;  // ReadConfig turns 0 into 4 * hidden_size
  int64_t vocab_size = 256;
  double dropout = 0.0;                       // probability
  std::vector<int64_t> layer_sizes;           // mlp: input, hidden ..., output
  Activation activation = Activation::kRelu;  // mlp: between the layers, not after the last
};

}  // namespace ddprun::trainer
