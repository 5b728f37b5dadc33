#include "trainer/loop/open_parts.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/failure.h"
#include "trainer/config/slot.h"
#include "trainer/loop/options_of.h"
#include "trainer/models/pretrained.h"

namespace ddprun::trainer {

namespace {

// A size that a folder's config.json says too.
struct SharedSize {
  std::string_view key;
  int64_t ModelConfig::*config;
  int64_t ModelOptions::*folder;
};

constexpr SharedSize kTransformerSizes[] = {
    {"hidden_size", &ModelConfig::hidden_size, &ModelOptions::hidden_size},
    {"num_hidden_layers", &ModelConfig::num_hidden_layers, &ModelOptions::num_hidden_layers},
    {"num_attention_heads", &ModelConfig::num_attention_heads, &ModelOptions::num_attention_heads},
    {"intermediate_size", &ModelConfig::intermediate_size, &ModelOptions::intermediate_size},
    {"vocab_size", &ModelConfig::vocab_size, &ModelOptions::vocab_size},
    {"max_position_embeddings", &ModelConfig::max_position_embeddings,
     &ModelOptions::max_positions},
};
constexpr SharedSize kBertSizes[] = {
    {"type_vocab_size", &ModelConfig::type_vocab_size, &ModelOptions::type_vocab_size}};
constexpr SharedSize kLlamaSizes[] = {
    {"num_key_value_heads", &ModelConfig::num_key_value_heads, &ModelOptions::num_key_value_heads},
    {"head_dim", &ModelConfig::head_dim, &ModelOptions::head_dim}};

// Compares the keys of a config with a folder and takes from the folder what the config leaves out.
class FolderMerge {
 public:
  FolderMerge(ModelConfig& config, ModelOptions& folder) : config_(config), folder_(folder) {}

  bool Given(std::string_view key) const {
    return std::ranges::find(config_.given, key) != config_.given.end();
  }

  template <typename T>
  void Agree(std::string_view key, T& in_config, const T& in_folder) {
    // 0 is what a resolved config says of keys for other models.
    const bool other = in_config != in_folder && (std::is_same_v<T, bool> || in_config != T{});
    if (Given(key) && other) {
      differences_ += "model." + std::string(key) + " is " + SlotText(&in_config) +
                      " in the config and " + Text(in_folder) + " in the folder.\n";
    }
    in_config = in_folder;
  }

  // The config keeps what it says, which may be nothing.
  void AgreeOnScaling() {
    const std::string& text = config_.rope_scaling.text;
    if (text == JsonText().text || ReadRopeScaling(text) == folder_.rope_scaling) return;
    differences_ += "model.rope_scaling is " + text + " in the config and another in the folder.\n";
  }

  // The config may choose its own.
  template <typename T>
  void Prefer(std::string_view key, T& in_config, T& in_folder) {
    (Given(key) ? in_folder : in_config) = Given(key) ? in_config : in_folder;
  }

  void Sizes(std::span<const SharedSize> sizes) {
    for (const SharedSize& size : sizes) {
      Agree(size.key, config_.*size.config, folder_.*size.folder);
    }
  }

  void Finish() const {
    if (differences_.empty()) return;
    throw Failure(Error{.code = Code::kUsage,
                        .title = "CONFIG AND MODEL FOLDER DISAGREE",
                        .where = config_.name_or_path,
                        .what = "\"" + config_.name_or_path + "/config.json\" describes another " +
                                "model than the config:\n" + differences_,
                        .hint = "Remove these keys from the config: the folder says them.",
                        .page = "config-and-folder-disagree"});
  }

 private:
  template <typename T>
  static std::string Text(T value) {
    return SlotText(&value);
  }

  ModelConfig& config_;
  ModelOptions& folder_;
  std::string differences_;
};

void MergeTransformer(FolderMerge& merge, ModelConfig& config, ModelOptions& folder) {
  merge.Sizes(kTransformerSizes);
  if (config.type == ModelType::kBert) {
    merge.Sizes(kBertSizes);
    const int64_t labels = folder.num_labels;
    merge.Prefer("num_labels", config.num_labels, folder.num_labels);
    if (folder.num_labels != labels) folder.labels.clear();
  } else {
    merge.Agree("tie_word_embeddings", config.tie_word_embeddings, folder.tie_word_embeddings);
  }
  if (config.type == ModelType::kLlama) {
    merge.Sizes(kLlamaSizes);
    merge.Agree("rms_norm_eps", config.rms_norm_eps, folder.norm_epsilon);
    merge.Agree("rope_theta", config.rope_theta, folder.rope_theta);
    merge.AgreeOnScaling();
    merge.Agree("attention_bias", config.attention_bias, folder.attention_bias);
    merge.Agree("mlp_bias", config.mlp_bias, folder.mlp_bias);
  }
  // Where the config gives only `dropout`, ReadConfig has made the others equal to it.
  const bool own = merge.Given("dropout");
  const bool own_attention = own || merge.Given("attention_dropout");
  const bool own_classifier = own || merge.Given("classifier_dropout");
  merge.Prefer("dropout", config.dropout, folder.dropout);
  if (own) folder.embedding_dropout = folder.dropout;
  (own_attention ? folder.attention_dropout : config.attention_dropout) =
      own_attention ? config.attention_dropout : folder.attention_dropout;
  (own_classifier ? folder.classifier_dropout : config.classifier_dropout) =
      own_classifier ? config.classifier_dropout : folder.classifier_dropout;
}

Failure WrongType(const ModelConfig& config, const std::string& found) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "CONFIG AND MODEL FOLDER DISAGREE",
                       .where = config.name_or_path,
                       .what = "model.type is \"" + std::string(Word(config.type)) +
                               "\" in the config, but \"" + config.name_or_path +
                               "/config.json\" describes a model of type \"" + found + "\".",
                       .hint = "Set model.type to \"" + found + "\", or take another folder.",
                       .page = "config-and-folder-disagree"});
}

Failure NoSuchModel(const std::string& path) {
  return Failure(Error{
      .code = Code::kUsage,
      .title = "NO SUCH MODEL",
      .where = path,
      .what = "model.name_or_path is a folder with config.json and model.safetensors, or such a\n"
              "file, beside the config or elsewhere; there is no \"" +
              path + "\".",
      .hint = "Nothing is downloaded while training. A model of the Hugging Face Hub comes with\n"
              "hf download NAME --local-dir " +
              path,
      .page = "model-folder"});
}

Failure DoesNotFit(const std::string& what, const std::string& hint) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "DATA AND MODEL DO NOT FIT",
                       .where = "",
                       .what = what,
                       .hint = hint,
                       .page = "data-and-model"});
}

void CheckPositions(const Config& config) {
  // A plugin's samples are as long as it makes them.
  if (config.data.format == DataFormat::kPlugin) return;
  if (config.data.max_seq_length <= config.model.max_position_embeddings) return;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "SEQUENCE TOO LONG",
                      .where = config.model.name_or_path,
                      .what = "data.max_seq_length is " +
                              std::to_string(config.data.max_seq_length) + ", but the model in \"" +
                              config.model.name_or_path + "\" takes at most " +
                              std::to_string(config.model.max_position_embeddings) + " tokens.",
                      .hint = "Set data.max_seq_length to " +
                              std::to_string(config.model.max_position_embeddings) + " or less.",
                      .page = "sequence-too-long"});
}

constexpr char kHint[] = "Change the model section, or train on other data (data.format).";

Failure SizesDoNotFit(const std::string& what, const std::string& hint = kHint) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "DATA DOES NOT FIT THE MODEL",
                       .where = "",
                       .what = what,
                       .hint = hint,
                       .page = "data-does-not-fit"});
}

int64_t Product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

int64_t OutputsFor(const DataShape& data) {
  return data.classes > 0 ? data.classes : Product(data.target);
}

void FitImageModel(const DataShape& data, ModelOptions& model) {
  if (data.input.size() != 3) {
    throw SizesDoNotFit("model.type \"" + model.type +
                        "\" takes images, but a sample of the data has " +
                        std::to_string(data.input.size()) +
                        " dimensions where channels, height and width were expected.");
  }
  model.image = data.input;
  model.num_labels = OutputsFor(data);
}

// "[4, 16, 3]": the sizes with the data's first and last ones.
std::string Fitting(const std::vector<int64_t>& sizes, int64_t in, int64_t out) {
  std::string text = "[" + std::to_string(in);
  for (size_t i = 1; i + 1 < sizes.size(); ++i) text += ", " + std::to_string(sizes[i]);
  return text + ", " + std::to_string(out) + "]";
}

void FitMlp(const DataShape& data, const ModelOptions& model) {
  const int64_t in = Product(data.input);
  const int64_t out = OutputsFor(data);
  const auto& sizes = model.layer_sizes;
  if (sizes.size() < 2 || (sizes.front() == in && sizes.back() == out)) return;
  throw SizesDoNotFit(
      "model.layer_sizes goes from " + std::to_string(sizes.front()) + " to " +
          std::to_string(sizes.back()) + " values, but a sample of the data has " +
          std::to_string(in) + " values, and " + std::to_string(out) +
          (data.classes > 0 ? " classes" : " numbers to predict") + ".",
      "Set model.layer_sizes to " + Fitting(sizes, in, out) + "." +
          (sizes.back() == 1 && out > 1 ? " Or, if the data's target is a number and no "
                                          "class, set data.target_type to \"number\"."
                                        : ""));
}

// Gives a linear model, a CNN or a ResNet its sizes, and compares those of an MLP with the data;
// leaves other models alone. Throws Failure when they do not fit.
void FitSizesToData(const DataShape& data, ModelOptions& model) {
  // A data set that does not say what its samples are like is found out by the first batch.
  if (data.input.empty()) return;
  if (model.type == "linear") {
    model.layer_sizes = {Product(data.input), OutputsFor(data)};
    model.activation = "none";
  } else if (model.type == "mlp") {
    FitMlp(data, model);
  } else if (model.type == "cnn" || model.type.starts_with("resnet")) {
    FitImageModel(data, model);
  }
}

}  // namespace

void FitModelToData(const DataShape& data, ModelOptions& model) {
  FitSizesToData(data, model);
  model.data = data;
  const bool reads_tokens = model.type == "bert" || model.type == "gpt" || model.type == "llama";
  if (reads_tokens && data.vocab_size > model.vocab_size) {
    throw DoesNotFit("The vocabulary of the data has " + std::to_string(data.vocab_size) +
                         " tokens, but the model has embeddings for " +
                         std::to_string(model.vocab_size) + " (model.vocab_size).",
                     "Take the tokenizer that belongs to the model, or for a fresh model set "
                     "model.vocab_size to at least " +
                         std::to_string(data.vocab_size) + ".");
  }
  if (model.type != "bert") return;
  if (model.num_labels > 1 && data.classes > model.num_labels) {
    throw DoesNotFit("The data has " + std::to_string(data.classes) +
                         " classes, but the model tells " + std::to_string(model.num_labels) +
                         " apart (model.num_labels).",
                     "Set model.num_labels to " + std::to_string(data.classes) + ".");
  }
  // Names that are the numbers of the classes say nothing that the folder does not say better.
  for (size_t i = 0; i < data.labels.size(); ++i) {
    if (data.labels[i] == std::to_string(i)) continue;
    model.labels = data.labels;
    break;
  }
}

ModelOptions OpenModel(Config& config) {
  ModelConfig& model = config.model;
  if (!model.name_or_path.empty() && !std::filesystem::exists(model.name_or_path)) {
    throw NoSuchModel(model.name_or_path);
  }
  const bool transformer = model.type == ModelType::kBert || model.type == ModelType::kGpt ||
                           model.type == ModelType::kLlama;
  // A weights file by itself says nothing of the model, and those of images follow the data.
  if (model.name_or_path.empty() || std::filesystem::is_regular_file(model.name_or_path) ||
      (!transformer && model.type != ModelType::kMlp)) {
    return ModelOptionsOf(config);
  }
  ModelOptions folder = ReadModelOptions(model.name_or_path);
  if (folder.type != Word(model.type)) throw WrongType(model, folder.type);
  FolderMerge merge(model, folder);
  if (!transformer) return ModelOptionsOf(config);
  MergeTransformer(merge, model, folder);
  merge.Finish();
  folder.loss = LossOptionsOf(config.training);
  CheckPositions(config);
  return folder;
}

}  // namespace ddprun::trainer
