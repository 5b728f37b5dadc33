#include <algorithm>

#include "trainer/config/checker.h"

namespace ddprun::trainer {

namespace {

// The kind of a model's inputs and of a format's samples.
enum class Reads { kTokens, kPairs, kNumbers, kAnything };

Reads ReadsOf(ModelType type) {
  switch (type) {
    case ModelType::kBert:
      return Reads::kPairs;
    case ModelType::kGpt:
    case ModelType::kLlama:
      return Reads::kTokens;
    case ModelType::kMlp:
    case ModelType::kLinear:
    case ModelType::kCnn:
    case ModelType::kResNet18:
    case ModelType::kResNet34:
    case ModelType::kResNet50:
    case ModelType::kResNet101:
      return Reads::kNumbers;
    case ModelType::kTorchScript:
    case ModelType::kPlugin:
      break;
  }
  return Reads::kAnything;
}

Reads ReadsOf(DataFormat format) {
  switch (format) {
    case DataFormat::kText:
    case DataFormat::kJsonLines:
    case DataFormat::kChat:
    case DataFormat::kTokens:
      return Reads::kTokens;
    case DataFormat::kTextClassification:
      return Reads::kPairs;
    case DataFormat::kRandom:
    case DataFormat::kCsv:
    case DataFormat::kIdx:
    case DataFormat::kCifar10:
    case DataFormat::kCifar100:
    case DataFormat::kImageFolder:
      return Reads::kNumbers;
    case DataFormat::kPlugin:
      break;
  }
  return Reads::kAnything;
}

std::string Text(Reads reads) {
  if (reads == Reads::kPairs) return "labelled texts";
  return reads == Reads::kTokens ? "text" : "numbers or images";
}

void CheckSize(
    Checker& check, std::string_view path, int64_t size, const char* which, int64_t layer_size) {
  if (size == 0) return check.Missing(path, "data.format \"random\"");
  if (size == layer_size) return;
  check.Conflict(path,
                 std::string(path) + " (" + std::to_string(size) + ") differs from the " + which +
                     " of model.layer_sizes (" + std::to_string(layer_size) + "):",
                 "They must be equal.");
}

void CheckRandomData(Checker& check) {
  const DataConfig& data = check.config.data;
  if (data.num_samples == 0) check.Missing("data.num_samples", "data.format \"random\"");
  if (check.config.model.layer_sizes.empty()) return;  // reported already, or not an MLP
  CheckSize(check, "data.input_size", data.input_size, "first",
            check.config.model.layer_sizes.front());
  CheckSize(check, "data.target_size", data.target_size, "last",
            check.config.model.layer_sizes.back());
}

void CheckCsvData(Checker& check) {
  const DataConfig& data = check.config.data;
  if (data.label_column.empty()) check.Missing("data.label_column", "data.format \"csv\"");
  const auto& features = data.feature_columns;
  if (std::ranges::find(features, data.label_column) != features.end()) {
    check.Conflict("data.feature_columns", "The column to predict is among those to predict from:",
                   "Remove \"" + data.label_column + "\" from the list.");
  }
  if (!data.weight_column.empty() &&
      (data.weight_column == data.label_column ||
       std::ranges::find(features, data.weight_column) != features.end())) {
    check.Conflict("data.weight_column", "This column is to predict, or to predict from:",
                   "Name a column that only says how much each row counts.");
  }
  for (const std::string& name : data.categorical_columns) {
    const bool feature = std::ranges::find(features, name) != features.end();
    const bool other = name == data.label_column || name == data.weight_column;
    if (!other && (features.empty() || feature)) continue;
    check.Conflict("data.categorical_columns", "\"" + name + "\" is no column to predict from:",
                   "Remove it, or add it to data.feature_columns.");
  }
  if (data.delimiter.size() != 1 || data.delimiter == "\"" || data.delimiter == "\n") {
    check.Conflict("data.delimiter", "The delimiter is one character, and no quote or line break:",
                   "For tabs write \"\\t\".");
  }
  if (data.target_type == TargetType::kClass && data.standardize_target) {
    check.Conflict("data.standardize_target", "Classes have no mean and deviation:",
                   "Remove the key, or set data.target_type to \"number\".");
  }
  if (data.target_type == TargetType::kNumber && !data.labels.empty()) {
    check.Conflict("data.labels", "Numbers to predict have no classes:",
                   "Remove data.labels, or set data.target_type to \"class\".");
  }
}

void CheckPairData(Checker& check) {
  const DataConfig& data = check.config.data;
  if (data.tokenizer.empty() && check.config.model.name_or_path.empty()) {
    check.Missing("data.tokenizer",
                  "data.format \"text_classification\" without model.name_or_path");
  }
  if (data.length_grouped && !data.shuffle) {
    check.Conflict(
        "data.length_grouped",
        "Batches of similar lengths are drawn from a random order:", "Set data.shuffle to true.");
  }
  if (!data.text_pair_column.empty() && data.text_column.empty()) {
    check.Missing("data.text_column", "data.text_pair_column");
  }
}

void CheckImageData(Checker& check) {
  const DataConfig& data = check.config.data;
  const auto check_size = [&](std::string_view path, size_t size) {
    if (size == 0 || size == 1 || size == 3) return;
    check.Conflict(
        path,
        "Images have one channel or three, and this list is for " + std::to_string(size) + ":",
        "Give one number for all channels, or one for each.");
  };
  check_size("data.image_mean", data.image_mean.size());
  check_size("data.image_std", data.image_std.size());
  if (data.random_resized_crop && data.image_size == 0) {
    check.Missing("data.image_size", "data.random_resized_crop");
  }
  if (data.random_resized_crop && data.random_crop_padding > 0) {
    check.Conflict(
        "data.random_crop_padding",
        "data.random_resized_crop cuts images at random already:", "Remove one of the two keys.");
  }
}

}  // namespace

void CheckData(Checker& check) {
  const DataConfig& data = check.config.data;
  const Reads model_reads = ReadsOf(check.config.model.type);
  const Reads data_reads = ReadsOf(data.format);
  const bool known = model_reads != Reads::kAnything && data_reads != Reads::kAnything;
  if (known && model_reads != data_reads) {
    const std::string model = "model.type \"" + std::string(Word(check.config.model.type)) + "\"";
    const std::string format = "data.format \"" + std::string(Word(data.format)) + "\"";
    return check.Conflict(check.Given("data.format") ? "data.format" : "model.type",
                          model + " trains on " + Text(model_reads) + ", but " + format +
                              " gives " + Text(data_reads) + ":",
                          "docs/data.md says which formats there are.");
  }
  if (data.format == DataFormat::kRandom) return CheckRandomData(check);
  const std::string format = "data.format \"" + std::string(Word(data.format)) + "\"";
  if (data.format == DataFormat::kPlugin) {
    const bool model_has_one = check.config.model.type == ModelType::kPlugin;
    if (data.plugin.empty() && !model_has_one) check.Missing("data.plugin", format);
  } else if (data.train_files.empty()) {
    check.Missing("data.train_files", format);
  }
  if (data.validation_fraction > 0 && !data.validation_files.empty()) {
    check.Conflict(
        "data.validation_fraction",
        "There are data.validation_files already, so no share of the training samples is "
        "needed:",
        "Remove one of the two keys.");
  }
  if (data.format == DataFormat::kCsv) CheckCsvData(check);
  if (data.format == DataFormat::kJsonLines && data.tokenizer.empty()) {
    check.Missing("data.tokenizer", format);
  }
  const bool has_no_tokenizer = data.tokenizer.empty() && check.config.model.name_or_path.empty();
  if (data.format == DataFormat::kChat && has_no_tokenizer) check.Missing("data.tokenizer", format);
  if (data.format == DataFormat::kTextClassification) CheckPairData(check);
  const bool images = ReadsOf(data.format) == Reads::kNumbers && data.format != DataFormat::kCsv;
  if (images) CheckImageData(check);
}

}  // namespace ddprun::trainer
