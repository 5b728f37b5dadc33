#include "trainer/models/registry.h"

#include <array>
#include <span>

#include "base/failure.h"
#include "base/text.h"
#include "trainer/models/bert.h"
#include "trainer/models/cnn.h"
#include "trainer/models/gpt.h"
#include "trainer/models/layers.h"
#include "trainer/models/llama.h"
#include "trainer/models/mlp.h"
#include "trainer/models/plugin_model.h"
#include "trainer/models/resnet.h"
#include "trainer/models/torchscript.h"

namespace ddprun::trainer {

namespace {

Failure UnknownName(const std::string& key,
                    const std::string& found,
                    std::span<const std::string> known) {
  std::string accepted;
  for (const std::string& name : known) accepted += (accepted.empty() ? "" : ", ") + name;
  const auto nearest = Nearest(found, known);
  return Failure(
      Error{.code = Code::kUsage,
            .title = "UNKNOWN MODEL",
            .where = "",
            .what = key + " is \"" + found + "\"; one of these was expected: " + accepted + ".",
            .hint = nearest ? "Did you mean \"" + *nearest + "\"?" : "",
            .page = "unknown-model"});
}

std::shared_ptr<Model> BuildBert(const ModelOptions& options) {
  BertOptions bert;
  bert.vocab_size = options.vocab_size;
  bert.max_position_embeddings = options.max_positions;
  bert.type_vocab_size = options.type_vocab_size;
  bert.hidden_size = options.hidden_size;
  bert.num_hidden_layers = options.num_hidden_layers;
  bert.num_attention_heads = options.num_attention_heads;
  bert.intermediate_size =
      options.intermediate_size > 0 ? options.intermediate_size : 4 * options.hidden_size;
  bert.num_labels = options.num_labels;
  bert.labels = options.labels;
  if (!options.hidden_act.empty()) bert.hidden_act = options.hidden_act;
  if (options.norm_epsilon > 0) bert.layer_norm_eps = options.norm_epsilon;
  bert.hidden_dropout = options.dropout;
  bert.attention_dropout = options.attention_dropout;
  bert.classifier_dropout = options.classifier_dropout;
  bert.pad_token_id = options.pad_token_id;
  bert.initialize = options.initialize;
  bert.label_smoothing = options.loss.label_smoothing;
  return MakeBert(bert);
}

std::shared_ptr<Model> BuildGpt(const ModelOptions& options) {
  GptOptions gpt;
  gpt.vocab_size = options.vocab_size;
  gpt.n_positions = options.max_positions;
  gpt.n_embd = options.hidden_size;
  gpt.n_layer = options.num_hidden_layers;
  gpt.n_head = options.num_attention_heads;
  gpt.n_inner = options.intermediate_size;
  if (!options.hidden_act.empty()) gpt.activation = options.hidden_act;
  if (options.norm_epsilon > 0) gpt.layer_norm_epsilon = options.norm_epsilon;
  gpt.dropout = options.dropout;
  gpt.embedding_dropout =
      options.embedding_dropout < 0 ? options.dropout : options.embedding_dropout;
  gpt.attention_dropout = options.attention_dropout;
  gpt.label_smoothing = options.loss.label_smoothing;
  gpt.tie_word_embeddings = options.tie_word_embeddings;
  gpt.initialize = options.initialize;
  return MakeGpt(gpt);
}

std::shared_ptr<Model> BuildLlama(const ModelOptions& options) {
  LlamaOptions llama;
  llama.vocab_size = options.vocab_size;
  llama.max_position_embeddings = options.max_positions;
  llama.hidden_size = options.hidden_size;
  llama.intermediate_size =
      options.intermediate_size > 0 ? options.intermediate_size : 4 * options.hidden_size;
  llama.num_hidden_layers = options.num_hidden_layers;
  llama.num_attention_heads = options.num_attention_heads;
  llama.num_key_value_heads = options.num_key_value_heads;
  llama.head_dim = options.head_dim;
  if (options.norm_epsilon > 0) llama.rms_norm_eps = options.norm_epsilon;
  llama.rope_theta = options.rope_theta;
  llama.rope_scaling = options.rope_scaling;
  llama.pad_token_id = options.ignored_token_id;
  llama.attention_bias = options.attention_bias;
  llama.mlp_bias = options.mlp_bias;
  llama.tie_word_embeddings = options.tie_word_embeddings;
  llama.attention_dropout = options.attention_dropout;
  llama.label_smoothing = options.loss.label_smoothing;
  llama.initialize = options.initialize;
  return MakeLlama(llama);
}

std::shared_ptr<Model> BuildMlp(const ModelOptions& options) {
  static const std::array<std::string, 3> kActivations = {"none", "relu", "gelu"};
  for (size_t i = 0; i < kActivations.size(); ++i) {
    if (options.activation != kActivations[i]) continue;
    return MakeMlp({.sizes = options.layer_sizes,
                    .activation = static_cast<MlpOptions::Activation>(i),
                    .loss = options.loss,
                    .initialize = options.initialize});
  }
  throw UnknownName("model.activation", options.activation, kActivations);
}

std::shared_ptr<Model> BuildCnn(const ModelOptions& options) {
  return MakeCnn({.image = options.image,
                  .channels = options.channels,
                  .hidden_size = options.hidden_size,
                  .num_labels = options.num_labels,
                  .dropout = options.dropout,
                  .loss = options.loss,
                  .initialize = options.initialize});
}

template <int64_t depth>
std::shared_ptr<Model> BuildResNet(const ModelOptions& options) {
  return MakeResNet({.depth = depth,
                     .in_channels = options.image.empty() ? 3 : options.image.front(),
                     .num_labels = options.num_labels,
                     .loss = options.loss,
                     .initialize = options.initialize});
}

std::shared_ptr<Model> BuildTorchScript(const ModelOptions& options) {
  return LoadTorchScript(options.path, options.loss);
}

std::shared_ptr<Model> BuildPlugin(const ModelOptions& options) {
  return MakePluginModel(LoadPlugin(options.path), {.json = options.json, .data = options.data});
}

struct ModelRow {
  const char* type;
  std::shared_ptr<Model> (*build)(const ModelOptions&);
};

constexpr std::array<ModelRow, 12> kModels = {{{"bert", BuildBert},
                                          {"gpt", BuildGpt},
                                          {"llama", BuildLlama},
                                          {"mlp", BuildMlp},
                                          {"linear", BuildMlp},
                                          {"cnn", BuildCnn},
                                          {"resnet18", BuildResNet<18>},
                                          {"resnet34", BuildResNet<34>},
                                          {"resnet50", BuildResNet<50>},
                                          {"resnet101", BuildResNet<101>},
                                          {"torchscript", BuildTorchScript},
                                          {"plugin", BuildPlugin}}};

}  // namespace

std::shared_ptr<Model> MakeModel(const ModelOptions& options) {
  for (const ModelRow& row : kModels) {
    if (row.type == options.type) return row.build(options);
  }
  throw UnknownName("model.type", options.type, ModelTypes());
}

std::shared_ptr<const Model> MakeModelShape(ModelOptions options) {
  if (options.type == "plugin" || options.type == "torchscript") return nullptr;
  options.initialize = false;
  const ShapesOnly scope;
  try {
    std::shared_ptr<const Model> model = MakeModel(options);
    double bytes = 0;
    for (const auto& tensor : model->State()) bytes += static_cast<double>(tensor->nbytes());
    if (bytes < 1e18) return model;
  } catch (const c10::Error&) {  // the bytes of one tensor overflow
  }
  ThrowWrongSize(options.type, "sizes of which no machine could hold the weights");
}

std::vector<std::string> ModelTypes() {
  std::vector<std::string> types;
  for (const ModelRow& row : kModels) types.emplace_back(row.type);
  return types;
}

}  // namespace ddprun::trainer
