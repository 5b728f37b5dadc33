#include "trainer/job/open_model.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/failure.h"
#include "trainer/config/slot.h"
#include "trainer/job/options_of.h"
#include "trainer/models/pretrained.h"

namespace ddprun::trainer {

namespace {

// Compares the keys of a config with a folder and takes from the folder what the config leaves out.
class FolderMerge {
 public:
  explicit FolderMerge(ModelConfig& config) : config_(config) {}

  bool Given(std::string_view key) const {
    return std::ranges::find(config_.given, key) != config_.given.end();
  }

  template <typename T>
  void Agree(std::string_view key, T& in_config, const T& in_folder) {
    // A resolved config has 0 for keys of other models.
    const bool other = in_config != in_folder && (std::is_same_v<T, bool> || in_config != T{});
    if (Given(key) && other) {
      differences_ += "model." + std::string(key) + " is " + SlotText(&in_config) +
                      " in the config and " + Text(in_folder) + " in the folder.\n";
    }
    in_config = in_folder;
  }

  // The config keeps its value, which may be empty.
  void AgreeOnScaling(const RopeScaling& in_folder) {
    const std::string& text = config_.rope_scaling.text;
    if (text == JsonText().text || ReadRopeScaling(text) == in_folder) return;
    differences_ += "model.rope_scaling is " + text + " in the config and another in the folder.\n";
  }

  // Takes the config's value if it gives one, else the folder's.
  template <typename T>
  void Prefer(std::string_view key, T& in_config, T& in_folder) {
    Take(Given(key), in_config, in_folder);
  }

  // If the config gives only `dropout`, ReadConfig() has made the other dropouts equal to it.
  void PreferDropout(std::string_view key, double& in_config, double& in_folder) {
    Take(Given("dropout") || Given(key), in_config, in_folder);
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
  static void Take(bool of_config, T& in_config, T& in_folder) {
    (of_config ? in_folder : in_config) = of_config ? in_config : in_folder;
  }
  template <typename T>
  static std::string Text(T value) {
    return SlotText(&value);
  }

  ModelConfig& config_;
  std::string differences_;
};

void MergeSizes(FolderMerge& merge, ModelConfig& config, const TransformerOptions& folder) {
  merge.Agree("hidden_size", config.hidden_size, folder.hidden_size);
  merge.Agree("num_hidden_layers", config.num_hidden_layers, folder.num_hidden_layers);
  merge.Agree("num_attention_heads", config.num_attention_heads, folder.num_attention_heads);
  merge.Agree("intermediate_size", config.intermediate_size, folder.intermediate_size);
  merge.Agree("vocab_size", config.vocab_size, folder.vocab_size);
  merge.Agree("max_position_embeddings", config.max_position_embeddings,
              folder.max_position_embeddings);
}

void MergeOwn(FolderMerge& merge, ModelConfig& config, GptOptions& folder) {
  merge.Agree("tie_word_embeddings", config.tie_word_embeddings, folder.tie_word_embeddings);
  merge.Prefer("dropout", config.dropout, folder.dropout);
  merge.PreferDropout("embedding_dropout", config.embedding_dropout, folder.embedding_dropout);
}

void MergeOwn(FolderMerge& merge, ModelConfig& config, LlamaOptions& folder) {
  merge.Agree("tie_word_embeddings", config.tie_word_embeddings, folder.tie_word_embeddings);
  merge.Agree("num_key_value_heads", config.num_key_value_heads, folder.num_key_value_heads);
  merge.Agree("head_dim", config.head_dim, folder.head_dim);
  merge.Agree("rms_norm_eps", config.rms_norm_eps, folder.rms_norm_eps);
  merge.Agree("rope_theta", config.rope_theta, folder.rope_theta);
  merge.AgreeOnScaling(folder.rope_scaling);
  merge.Agree("attention_bias", config.attention_bias, folder.attention_bias);
  merge.Agree("mlp_bias", config.mlp_bias, folder.mlp_bias);
}

void MergeOwn(FolderMerge& merge, ModelConfig& config, BertOptions& folder) {
  merge.Agree("type_vocab_size", config.type_vocab_size, folder.type_vocab_size);
  const int64_t labels = folder.num_labels;
  merge.Prefer("num_labels", config.num_labels, folder.num_labels);
  if (folder.num_labels != labels) folder.labels.clear();
  merge.Prefer("dropout", config.dropout, folder.dropout);
  merge.PreferDropout("classifier_dropout", config.classifier_dropout, folder.classifier_dropout);
}

template <typename Options>
void Merge(ModelConfig& config, Options& folder) {
  if constexpr (std::is_base_of_v<TransformerOptions, Options>) {
    FolderMerge merge(config);
    MergeSizes(merge, config, folder);
    MergeOwn(merge, config, folder);
    merge.PreferDropout("attention_dropout", config.attention_dropout, folder.attention_dropout);
    merge.Finish();
  }
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
      .what = "model.name_or_path is a folder with config.json and model.safetensors, a file of\n"
              "weights, or a run's checkpoint, beside the config or elsewhere; there is no \"" +
              path + "\".",
      .hint = "Nothing is downloaded while training. A model of the Hugging Face Hub comes with\n"
              "hf download NAME --local-dir " +
              path,
      .page = "model-folder"});
}

Failure DoesNotFit(const std::string& what, const std::string& hint) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "DATA AND MODEL DO NOT FIT",
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

void CheckImages(const DataShape& data, const std::string& type) {
  if (data.input.size() == 3) return;
  throw SizesDoNotFit("model.type \"" + type + "\" takes images, but a sample of the data has " +
                      std::to_string(data.input.size()) +
                      " dimensions where channels, height and width were expected.");
}

// Returns the sizes with the data's first and last size, such as "[4, 16, 3]".
std::string Fitting(const std::vector<int64_t>& sizes, int64_t in, int64_t out) {
  std::string text = "[" + std::to_string(in);
  for (size_t i = 1; i + 1 < sizes.size(); ++i) text += ", " + std::to_string(sizes[i]);
  return text + ", " + std::to_string(out) + "]";
}

void FitMlp(const DataShape& data, MlpOptions& model) {
  const int64_t in = Product(data.input);
  const int64_t out = OutputsFor(data);
  std::vector<int64_t>& sizes = model.sizes;
  if (sizes.empty()) sizes = {in, out};  // type "linear"
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

// Gives a linear model, a CNN or a ResNet its sizes, and compares an MLP's sizes with the data.
// Leaves other models alone. Throws Failure if the sizes do not fit.
void FitSizesToData(const DataShape& data, const std::string& type, ModelOptions& model) {
  // If a data set does not know its samples' sizes, the first batch shows them.
  if (data.input.empty()) return;
  if (auto* mlp = std::get_if<MlpOptions>(&model)) FitMlp(data, *mlp);
  const auto fit_images = [&](auto* images) {
    if (images == nullptr) return;
    CheckImages(data, type);
    images->image = data.input;
    images->num_labels = OutputsFor(data);
  };
  fit_images(std::get_if<CnnOptions>(&model));
  fit_images(std::get_if<ResNetOptions>(&model));
}

Failure LossDoesNotFit(const std::string& what, const std::string& other_target) {
  return Failure(
      Error{.code = Code::kUsage,
            .title = "LOSS DOES NOT FIT THE DATA",
            .where = "training.loss",
            .what = what,
            .hint = "Leave training.loss out, and the data decides. Or, for a table, set "
                    "data.target_type to \"" +
                    other_target + "\".",
            .page = "loss-does-not-fit"});
}

}  // namespace

void CheckLossOfData(const DataShape& data, Loss loss, const ModelOptions& model) {
  const bool sized_by_data = std::holds_alternative<MlpOptions>(model) ||
                             std::holds_alternative<CnnOptions>(model) ||
                             std::holds_alternative<ResNetOptions>(model);
  if (!sized_by_data) return;
  if (loss == Loss::kMse && data.classes > 1) {
    throw LossDoesNotFit(
        "\"mse\" compares numbers, but the data has " + std::to_string(data.classes) + " classes.",
        "number");
  }
  if (loss == Loss::kCrossEntropy && data.classes == 0 && !data.target.empty()) {
    throw LossDoesNotFit("\"cross_entropy\" takes classes, but the data's targets are numbers.",
                         "class");
  }
}

void FitModelToData(const DataShape& data, const Config& config, ModelOptions& model) {
  FitSizesToData(data, std::string(Word(config.model.type)), model);
  if (auto* plugin = std::get_if<PluginOptions>(&model)) plugin->data = data;
  const TransformerOptions* transformer = TransformerIn(model);
  if (transformer != nullptr && data.vocab_size > transformer->vocab_size) {
    throw DoesNotFit("The vocabulary of the data has " + std::to_string(data.vocab_size) +
                         " tokens, but the model has embeddings for " +
                         std::to_string(transformer->vocab_size) + " (model.vocab_size).",
                     "Take the tokenizer that belongs to the model, or for a fresh model set "
                     "model.vocab_size to at least " +
                         std::to_string(data.vocab_size) + ".");
  }
  auto* bert = std::get_if<BertOptions>(&model);
  if (bert == nullptr) return;
  if (bert->num_labels > 1 && data.classes > bert->num_labels) {
    throw DoesNotFit("The data has " + std::to_string(data.classes) +
                         " classes, but the model tells " + std::to_string(bert->num_labels) +
                         " apart (model.num_labels).",
                     "Set model.num_labels to " + std::to_string(data.classes) + ".");
  }
  // If all names are mere numbers of classes, the folder's names are better.
  for (size_t i = 0; i < data.labels.size(); ++i) {
    if (data.labels[i] == std::to_string(i)) continue;
    bert->labels = data.labels;
    break;
  }
}

namespace {

ModelOptions OpenWhole(Config& config) {
  ModelConfig& model = config.model;
  if (!model.name_or_path.empty() && !std::filesystem::exists(model.name_or_path)) {
    throw NoSuchModel(model.name_or_path);
  }
  ModelOptions options = ModelOptionsOf(model);
  // Weights without a config do not describe a model, and models of images follow the data.
  if (model.name_or_path.empty() || HasOnlyWeights(model.name_or_path) ||
      (TransformerIn(options) == nullptr && model.type != ModelType::kMlp)) {
    return options;
  }
  ModelOptions folder = ReadModelOptions(model.name_or_path);
  if (TypeOf(folder) != Word(model.type)) throw WrongType(model, TypeOf(folder));
  if (TransformerIn(folder) == nullptr) return options;
  std::visit([&](auto& of_folder) { Merge(model, of_folder); }, folder);
  CheckPositions(config);
  return folder;
}

}  // namespace

ModelOptions OpenModel(Config& config) {
  ModelOptions options = OpenWhole(config);
  if (auto* transformer = TransformerIn(options)) transformer->lora = LoraOptionsOf(config);
  return options;
}

}  // namespace ddprun::trainer
