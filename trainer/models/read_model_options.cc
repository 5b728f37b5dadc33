// Converts the config.json of each kind of model to ModelOptions. The fallbacks are the defaults of
// transformers' configuration classes, which write only values that differ from them.
#include <algorithm>
#include <array>

#include "trainer/config/slot.h"
#include "trainer/models/folder_config.h"
#include "trainer/models/pretrained.h"

namespace ddprun::trainer {

namespace {

std::string GeluIn(const FolderConfig& config, const char* key, const char* fallback) {
  std::string name = config.Text(key, fallback);
  if (IsGelu(name)) return name;
  throw config.Unexpected(key, "\"gelu\", \"gelu_new\" or \"gelu_pytorch_tanh\"");
}

// Reads the classes from id2label {"0": "entailment", ...}.
void ReadLabels(const FolderConfig& config, BertOptions* options) {
  options->num_labels = config.Size("num_labels", 2);
  if (!config.Has("id2label")) return;
  const FolderConfig labels = config.Object("id2label");
  const size_t count = labels.json().size();
  bool named = false;
  for (size_t i = 0; i < count; ++i) {
    const std::string index = std::to_string(i);
    if (!labels.Has(index.c_str())) {
      throw config.Unexpected("id2label", "a name for each number from 0 on");
    }
    options->labels.push_back(labels.Text(index.c_str(), ""));
    named = named || options->labels.back() != "LABEL_" + index;
  }
  // transformers writes LABEL_0, LABEL_1, ... if there are no names.
  if (!named) options->labels.clear();
  options->num_labels = static_cast<int64_t>(count);
}

// Throws unless transformers would use this project's loss: squared error for one label, otherwise
// one class of several.
void CheckProblemType(const FolderConfig& config, int64_t num_labels) {
  const std::string fitting = num_labels == 1 ? "regression" : "single_label_classification";
  if (config.Text("problem_type", fitting) == fitting) return;
  throw config.Unexpected("problem_type",
                          "\"" + fitting + "\", with " + std::to_string(num_labels) + " labels,");
}

// Throws for settings that change the network of any family and are not supported here.
void CheckPlainNetwork(const FolderConfig& config) {
  config.RequireNone("quantization_config",
                     "the weights are quantized. Save the model in float32, float16 or bfloat16.");
  config.RequireNone("auto_map",
                     "the folder brings its own Python code, and what that computes is not known "
                     "here. Remove the key if the model is transformers' own.");
  config.RequireNone("pruned_heads", "heads were pruned; all blocks have all heads here.");
}

ModelOptions BertFrom(const FolderConfig& config) {
  if (config.Text("position_embedding_type", "absolute") != "absolute") {
    throw config.Unexpected("position_embedding_type", "\"absolute\"");
  }
  config.Require("is_decoder", false);
  config.Require("add_cross_attention", false);
  BertOptions options;
  options.vocab_size = config.Size("vocab_size", 30522);
  options.max_position_embeddings = config.Size("max_position_embeddings", 512);
  options.hidden_size = config.Size("hidden_size", 768);
  options.num_hidden_layers = config.Size("num_hidden_layers", 12);
  options.num_attention_heads = config.Size("num_attention_heads", 12);
  options.intermediate_size = config.Size("intermediate_size", 3072);
  options.type_vocab_size = config.Size("type_vocab_size", 2);
  options.hidden_act = GeluIn(config, "hidden_act", "gelu");
  options.layer_norm_eps = config.Positive("layer_norm_eps", 1e-12);
  options.dropout = config.Probability("hidden_dropout_prob", 0.1);
  options.attention_dropout = config.Probability("attention_probs_dropout_prob", 0.1);
  options.classifier_dropout = config.Probability("classifier_dropout", options.dropout);
  const bool no_pad = config.json().contains("pad_token_id") && !config.Has("pad_token_id");
  options.pad_token_id = no_pad ? -1 : config.Size("pad_token_id", 0);
  ReadLabels(config, &options);
  CheckProblemType(config, options.num_labels);
  return options;
}

// GPT2Config also accepts sizes under Hugging Face's general names.
ModelOptions GptFrom(const FolderConfig& config) {
  config.Require("scale_attn_weights", true);
  config.Require("scale_attn_by_inverse_layer_idx", false);
  config.Require("add_cross_attention", false);
  GptOptions options;
  options.vocab_size = config.Size("vocab_size", 50257);
  options.max_position_embeddings = config.Size("n_positions", "max_position_embeddings", 1024);
  options.hidden_size = config.Size("n_embd", "hidden_size", 768);
  options.num_hidden_layers = config.Size("n_layer", "num_hidden_layers", 12);
  options.num_attention_heads = config.Size("n_head", "num_attention_heads", 12);
  options.intermediate_size = config.Size("n_inner", 4 * options.hidden_size);
  options.hidden_act = GeluIn(config, "activation_function", "gelu_new");
  options.layer_norm_epsilon = config.Positive("layer_norm_epsilon", 1e-5);
  options.dropout = config.Probability("resid_pdrop", 0.1);
  options.embedding_dropout = config.Probability("embd_pdrop", 0.1);
  options.attention_dropout = config.Probability("attn_pdrop", 0.1);
  options.tie_word_embeddings = config.Flag("tie_word_embeddings", true);
  return options;
}

RopeScaling ScalingFrom(const FolderConfig& scaling) {
  RopeScaling result;
  // "type" is the older name. If both exist, transformers takes it.
  const char* key = scaling.Has("type") ? "type" : "rope_type";
  const std::string type = scaling.Text(key, "default");
  if (type == "default") return result;
  const auto required = [&scaling](const char* name) {
    // A missing value is null, which is not a number.
    return scaling.Has(name) ? scaling.Positive(name, 0)
                             : throw scaling.Unexpected(name, "a number");
  };
  if (type == "linear" || type == "dynamic") {
    result.type = type == "linear" ? RopeScaling::Type::kLinear : RopeScaling::Type::kDynamic;
    result.factor = required("factor");
    return result;
  }
  if (type != "llama3") {
    throw scaling.Unexpected(key, "\"default\", \"linear\", \"dynamic\" or \"llama3\"");
  }
  result.type = RopeScaling::Type::kLlama3;
  result.factor = required("factor");
  result.low_freq_factor = required("low_freq_factor");
  result.high_freq_factor = required("high_freq_factor");
  result.original_max_position_embeddings = scaling.Size("original_max_position_embeddings", 0);
  if (result.original_max_position_embeddings == 0) {
    throw scaling.Unexpected("original_max_position_embeddings", "a number of tokens");
  }
  if (result.high_freq_factor <= result.low_freq_factor) {
    throw scaling.Unexpected("high_freq_factor", "more than low_freq_factor");
  }
  return result;
}

// Returns the padding token, whose embedding transformers does not train; -1: none. Old folders
// count it from the end.
int64_t PadToken(const FolderConfig& config, int64_t vocab_size) {
  if (!config.Has("pad_token_id")) return -1;
  const nlohmann::json& value = config.json().at("pad_token_id");
  const int64_t id = value.is_number_integer() ? value.get<int64_t>() : vocab_size;
  if (id >= -vocab_size && id < vocab_size) return id < 0 ? id + vocab_size : id;
  throw config.Unexpected("pad_token_id", "a token of the vocabulary");
}

ModelOptions LlamaFrom(const FolderConfig& config) {
  const std::string activation = config.Text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    throw config.Unexpected("hidden_act", "\"silu\" (or its other name, \"swish\")");
  }
  if (config.Number("partial_rotary_factor", 1.0) != 1.0) {
    throw config.Unexpected("partial_rotary_factor", "1");
  }
  LlamaOptions options;
  options.vocab_size = config.Size("vocab_size", 32000);
  options.max_position_embeddings = config.Size("max_position_embeddings", 2048);
  options.hidden_size = config.Size("hidden_size", 4096);
  options.num_hidden_layers = config.Size("num_hidden_layers", 32);
  options.num_attention_heads = config.Size("num_attention_heads", 32);
  options.num_key_value_heads = config.Size("num_key_value_heads", options.num_attention_heads);
  const int64_t heads = std::max<int64_t>(options.num_attention_heads, 1);
  options.head_dim = config.Size("head_dim", options.hidden_size / heads);
  options.intermediate_size = config.Size("intermediate_size", 11008);
  options.rms_norm_eps = config.Positive("rms_norm_eps", 1e-6);
  // transformers 5 has the base frequency in the object of the scaling.
  const FolderConfig rope =
      config.Object(config.Has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  options.rope_theta = rope.Positive("rope_theta", config.Positive("rope_theta", 10000.0));
  options.rope_scaling = ScalingFrom(rope);
  options.pad_token_id = PadToken(config, options.vocab_size);
  options.attention_bias = config.Flag("attention_bias", false);
  options.mlp_bias = config.Flag("mlp_bias", false);
  options.tie_word_embeddings = config.Flag("tie_word_embeddings", false);
  options.attention_dropout = config.Probability("attention_dropout", 0.0);
  return options;
}

ModelOptions MlpFrom(const FolderConfig& config) {
  MlpOptions options;
  try {
    options.sizes = config.json().at("layer_sizes").get<std::vector<int64_t>>();
  } catch (const nlohmann::json::exception& error) {
    throw config.Broken(error.what());
  }
  const auto words = WordsOf(Activation{});
  const auto* word = std::ranges::find(words, config.Text("activation", "")).base();
  if (word == words.data() + words.size()) {
    throw config.Unexpected("activation", "\"relu\", \"gelu\" or \"none\"");
  }
  options.activation = static_cast<Activation>(word - words.data());
  return options;
}

struct ReaderRow {
  const char* model_type;
  ModelOptions (*read)(const FolderConfig&);
};

constexpr std::array<ReaderRow, 4> kReaders = {
    {{"bert", BertFrom}, {"gpt2", GptFrom}, {"llama", LlamaFrom}, {"mlp", MlpFrom}}};

}  // namespace

RopeScaling ReadRopeScaling(const std::string& json) {
  return ScalingFrom({"rope_scaling", nlohmann::json::parse(json)});
}

ModelOptions ReadModelOptions(const std::string& folder) {
  return ReadModelOptions(FolderConfig(folder));
}

ModelOptions ReadModelOptions(const FolderConfig& config) {
  const std::string type = config.Text("model_type", "");
  CheckPlainNetwork(config);
  std::string known;
  for (const ReaderRow& row : kReaders) {
    if (row.model_type == type) return row.read(config);
    known += (known.empty() ? "\"" : ", \"") + std::string(row.model_type) + "\"";
  }
  throw config.Unexpected("model_type", "one of " + known);
}

}  // namespace ddprun::trainer
