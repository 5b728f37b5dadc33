// From the config.json of each kind of model to ModelOptions. The fallbacks are the defaults of
// transformers' configuration classes, which write only what differs from them.
#include <array>

#include "trainer/models/folder_config.h"
#include "trainer/models/layers.h"
#include "trainer/models/pretrained.h"

namespace ddprun::trainer {

namespace {

std::string GeluIn(const FolderConfig& config, const char* key, const char* fallback) {
  std::string name = config.Text(key, fallback);
  if (IsGelu(name)) return name;
  throw config.Unexpected(key, "\"gelu\", \"gelu_new\" or \"gelu_pytorch_tanh\"");
}

// The classes, from id2label {"0": "entailment", ...}.
void ReadLabels(const FolderConfig& config, ModelOptions* options) {
  options->num_labels = config.Size("num_labels", 2);
  if (!config.Has("id2label")) return;
  const FolderConfig labels = config.Object("id2label");
  const size_t count = labels.json().size();
  for (size_t i = 0; i < count; ++i) {
    const std::string index = std::to_string(i);
    if (!labels.Has(index.c_str())) {
      throw config.Unexpected("id2label", "a name for each number from 0 on");
    }
    options->labels.push_back(labels.Text(index.c_str(), ""));
  }
  options->num_labels = static_cast<int64_t>(count);
}

ModelOptions BertFrom(const FolderConfig& config) {
  if (config.Text("position_embedding_type", "absolute") != "absolute") {
    throw config.Unexpected("position_embedding_type", "\"absolute\"");
  }
  config.Require("is_decoder", false);
  ModelOptions options;
  options.type = "bert";
  options.vocab_size = config.Size("vocab_size", 30522);
  options.max_positions = config.Size("max_position_embeddings", 512);
  options.type_vocab_size = config.Size("type_vocab_size", 2);
  options.hidden_size = config.Size("hidden_size", 768);
  options.num_hidden_layers = config.Size("num_hidden_layers", 12);
  options.num_attention_heads = config.Size("num_attention_heads", 12);
  options.intermediate_size = config.Size("intermediate_size", 3072);
  options.hidden_act = GeluIn(config, "hidden_act", "gelu");
  options.norm_epsilon = config.Number("layer_norm_eps", 1e-12);
  options.dropout = config.Probability("hidden_dropout_prob", 0.1);
  options.attention_dropout = config.Probability("attention_probs_dropout_prob", 0.1);
  options.classifier_dropout = config.Probability("classifier_dropout", options.dropout);
  const bool no_pad = config.json().contains("pad_token_id") && !config.Has("pad_token_id");
  options.pad_token_id = no_pad ? -1 : config.Size("pad_token_id", 0);
  ReadLabels(config, &options);
  return options;
}

ModelOptions GptFrom(const FolderConfig& config) {
  config.Require("scale_attn_weights", true);
  config.Require("scale_attn_by_inverse_layer_idx", false);
  config.Require("add_cross_attention", false);
  ModelOptions options;
  options.type = "gpt";
  options.vocab_size = config.Size("vocab_size", 50257);
  options.max_positions = config.Size("n_positions", 1024);
  options.hidden_size = config.Size("n_embd", 768);
  options.num_hidden_layers = config.Size("n_layer", 12);
  options.num_attention_heads = config.Size("n_head", 12);
  options.intermediate_size = config.Size("n_inner", 4 * options.hidden_size);
  options.hidden_act = GeluIn(config, "activation_function", "gelu_new");
  options.norm_epsilon = config.Number("layer_norm_epsilon", 1e-5);
  options.dropout = config.Probability("resid_pdrop", 0.1);
  options.attention_dropout = config.Probability("attn_pdrop", 0.1);
  options.tie_word_embeddings = config.Flag("tie_word_embeddings", true);
  return options;
}

RopeScaling ScalingFrom(const FolderConfig& scaling) {
  RopeScaling result;
  const std::string type = scaling.Text("rope_type", scaling.Text("type", "default"));
  if (type == "default") return result;
  result.factor = scaling.Number("factor", 1.0);
  if (type == "linear") {
    result.type = RopeScaling::Type::kLinear;
    return result;
  }
  if (type != "llama3") {
    throw scaling.Unexpected("rope_type", "\"default\", \"linear\" or \"llama3\"");
  }
  result.type = RopeScaling::Type::kLlama3;
  result.low_freq_factor = scaling.Number("low_freq_factor", 1.0);
  result.high_freq_factor = scaling.Number("high_freq_factor", 4.0);
  result.original_max_position_embeddings = scaling.Size("original_max_position_embeddings", 8192);
  return result;
}

ModelOptions LlamaFrom(const FolderConfig& config) {
  if (config.Text("hidden_act", "silu") != "silu")
    throw config.Unexpected("hidden_act", "\"silu\"");
  ModelOptions options;
  options.type = "llama";
  options.vocab_size = config.Size("vocab_size", 32000);
  options.max_positions = config.Size("max_position_embeddings", 2048);
  options.hidden_size = config.Size("hidden_size", 4096);
  options.num_hidden_layers = config.Size("num_hidden_layers", 32);
  options.num_attention_heads = config.Size("num_attention_heads", 32);
  options.num_key_value_heads = config.Size("num_key_value_heads", options.num_attention_heads);
  options.head_dim = config.Size("head_dim", 0);
  options.intermediate_size = config.Size("intermediate_size", 11008);
  options.norm_epsilon = config.Number("rms_norm_eps", 1e-6);
  // transformers 5 puts the base frequency beside the scaling.
  const FolderConfig rope =
      config.Object(config.Has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  options.rope_theta = rope.Number("rope_theta", config.Number("rope_theta", 10000.0));
  options.rope_scaling = ScalingFrom(rope);
  options.attention_bias = config.Flag("attention_bias", false);
  options.mlp_bias = config.Flag("mlp_bias", false);
  options.tie_word_embeddings = config.Flag("tie_word_embeddings", false);
  options.attention_dropout = config.Probability("attention_dropout", 0.0);
  return options;
}

ModelOptions MlpFrom(const FolderConfig& config) {
  ModelOptions options;
  options.type = "mlp";
  try {
    options.layer_sizes = config.json().at("layer_sizes").get<std::vector<int64_t>>();
    options.activation = config.json().at("activation").get<std::string>();
  } catch (const nlohmann::json::exception& error) {
    throw config.Broken(error.what());
  }
  return options;
}

struct Row {
  const char* model_type;
  ModelOptions (*read)(const FolderConfig&);
};

constexpr std::array<Row, 4> kReaders = {
    {{"bert", BertFrom}, {"gpt2", GptFrom}, {"llama", LlamaFrom}, {"mlp", MlpFrom}}};

}  // namespace

ModelOptions ReadModelOptions(const std::string& folder) {
  const FolderConfig config(folder);
  const std::string type = config.Text("model_type", "");
  std::string known;
  for (const Row& row : kReaders) {
    if (row.model_type == type) return row.read(config);
    known += (known.empty() ? "\"" : ", \"") + std::string(row.model_type) + "\"";
  }
  throw config.Unexpected("model_type", "one of " + known);
}

}  // namespace ddprun::trainer
