// From a model's name to the model: one explicit table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/models/llama.h"
#include "trainer/models/loss.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

// All that any of the models takes; each reads its part.
struct ModelOptions {
  std::string type = "gpt";  // one of ModelTypes()
  // bert, gpt, llama
  int64_t hidden_size = 128;
  int64_t num_hidden_layers = 4;
  int64_t num_attention_heads = 4;
  int64_t intermediate_size = 0;  // 0: 4 * hidden_size
  int64_t vocab_size = 256;
  int64_t max_positions = 128;  // longest sequence, tokens
  double dropout = 0.0;         // bert, gpt
  double attention_dropout = 0.0;
  double embedding_dropout = -1.0;  // gpt; -1: as `dropout`
  std::string hidden_act = "";      // Hugging Face's name of a GELU; empty: the model's own
  double norm_epsilon = 0.0;        // 0: the model's own
  // bert
  int64_t type_vocab_size = 2;
  int64_t num_labels = 2;
  std::vector<std::string> labels = {};  // names of the classes; may be fewer than num_labels
  double classifier_dropout = 0.0;
  int64_t pad_token_id = 0;  // -1: none
  // gpt, llama
  bool tie_word_embeddings = true;
  // llama; see llama.h
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling = {};
  int64_t ignored_token_id = -1;
  bool attention_bias = false;
  bool mlp_bias = false;
  // mlp, linear
  std::vector<int64_t> layer_sizes = {};  // input, hidden ..., output
  std::string activation = "relu";        // relu, gelu or none
  // cnn, resnet: num_labels outputs
  std::vector<int64_t> image = {};           // of one sample: {C, H, W}
  std::vector<int64_t> channels = {32, 64};  // cnn: of each stage
  // torchscript, plugin
  std::string path = {};
  // plugin
  std::string json = "{}";  // options for its code
  DataShape data = {};      // of what it is trained on
  LossOptions loss = {};    // transformers have their own kind, plugins their own loss
  // False: weights are left uninitialised, for ranks that receive them by broadcast.
  bool initialize = true;

  bool operator==(const ModelOptions&) const = default;
};

// Throws Failure for an unknown type or activation (names the nearest), or sizes that do not fit.
std::shared_ptr<Model> MakeModel(const ModelOptions& options);

// The same with names and shapes alone, in no time and memory; nullptr where only its own code or
// file knows them (plugin, torchscript). Throws Failure too for more than can be counted.
std::shared_ptr<const Model> MakeModelShape(ModelOptions options);

// Accepted values of ModelOptions::type.
std::vector<std::string> ModelTypes();

}  // namespace ddprun::trainer
