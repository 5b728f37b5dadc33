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

}  // namespace

void Checker::CheckSize(std::string_view path,
                        int64_t size,
                        const char* which,
                        int64_t layer_size) {
  if (size == 0) return Missing(path, "data.format \"random\"");
  if (size == layer_size) return;
  Conflict(path,
           std::string(path) + " (" + std::to_string(size) + ") differs from the " + which +
               " of model.layer_sizes (" + std::to_string(layer_size) + "):",
           "They must be equal.");
}

void Checker::CheckData() {
  const DataConfig& data = config_.data;
  const Reads model_reads = ReadsOf(config_.model.type);
  const Reads data_reads = ReadsOf(data.format);
  const bool known = model_reads != Reads::kAnything && data_reads != Reads::kAnything;
  if (known && model_reads != data_reads) {
    const std::string model = "model.type \"" + std::string(Word(config_.model.type)) + "\"";
    const std::string format = "data.format \"" + std::string(Word(data.format)) + "\"";
    return Conflict(Given("data.format") ? "data.format" : "model.type",
                    model + " trains on " + Text(model_reads) + ", but " + format + " gives " +
                        Text(data_reads) + ":",
                    "docs/data.md says which formats there are.");
  }
  if (data.format == DataFormat::kRandom) return CheckRandomData();
  const std::string format = "data.format \"" + std::string(Word(data.format)) + "\"";
  if (data.format == DataFormat::kPlugin) {
    const bool model_has_one = config_.model.type == ModelType::kPlugin;
    if (data.plugin.empty() && !model_has_one) Missing("data.plugin", format);
  } else if (data.train_files.empty()) {
    Missing("data.train_files", format);
  }
  if (data.validation_fraction > 0 && !data.validation_files.empty()) {
    Conflict("data.validation_fraction",
             "There are data.validation_files already, so no share of the training samples is "
             "needed:",
             "Remove one of the two keys.");
  }
  if (data.format == DataFormat::kCsv) CheckCsvData();
  if (data.format == DataFormat::kJsonLines && data.tokenizer.empty()) {
    Missing("data.tokenizer", format);
  }
  if (data.format == DataFormat::kTextClassification) CheckPairData();
  if (ReadsOf(data.format) == Reads::kNumbers && data.format != DataFormat::kCsv) CheckImageData();
}

void Checker::CheckRandomData() {
  const DataConfig& data = config_.data;
  if (data.num_samples == 0) Missing("data.num_samples", "data.format \"random\"");
  if (config_.model.layer_sizes.empty()) return;  // reported already, or not an MLP
  CheckSize("data.input_size", data.input_size, "first", config_.model.layer_sizes.front());
  CheckSize("data.target_size", data.target_size, "last", config_.model.layer_sizes.back());
}

void Checker::CheckCsvData() {
  const DataConfig& data = config_.data;
  if (data.label_column.empty()) Missing("data.label_column", "data.format \"csv\"");
  const auto& features = data.feature_columns;
  if (std::ranges::find(features, data.label_column) != features.end()) {
    Conflict("data.feature_columns", "The column to predict is among those to predict from:",
             "Remove \"" + data.label_column + "\" from the list.");
  }
  for (const std::string& name : data.categorical_columns) {
    const bool feature = std::ranges::find(features, name) != features.end();
    if (name != data.label_column && (features.empty() || feature)) continue;
    Conflict("data.categorical_columns", "\"" + name + "\" is no column to predict from:",
             "Remove it, or add it to data.feature_columns.");
  }
  if (data.delimiter.size() != 1 || data.delimiter == "\"" || data.delimiter == "\n") {
    Conflict("data.delimiter", "The delimiter is one character, and no quote or line break:",
             "For tabs write \"\\t\".");
  }
  if (data.target_type == TargetType::kNumber && !data.labels.empty()) {
    Conflict("data.labels", "Numbers to predict have no classes:",
             "Remove data.labels, or set data.target_type to \"class\".");
  }
}

void Checker::CheckPairData() {
  const DataConfig& data = config_.data;
  if (data.tokenizer.empty() && config_.model.name_or_path.empty()) {
    Missing("data.tokenizer", "data.format \"text_classification\" without model.name_or_path");
  }
  if (data.length_grouped && !data.shuffle) {
    Conflict("data.length_grouped", "Batches of similar lengths are drawn from a random order:",
             "Set data.shuffle to true.");
  }
  if (!data.text_pair_column.empty() && data.text_column.empty()) {
    Missing("data.text_column", "data.text_pair_column");
  }
}

void Checker::CheckImageData() {
  const DataConfig& data = config_.data;
  const auto check = [&](std::string_view path, size_t size) {
    if (size == 0 || size == 1 || size == 3) return;
    Conflict(path,
             "Images have one channel or three, and this list is for " + std::to_string(size) + ":",
             "Give one number for all channels, or one for each.");
  };
  check("data.image_mean", data.image_mean.size());
  check("data.image_std", data.image_std.size());
  if (data.random_resized_crop && data.image_size == 0) {
    Missing("data.image_size", "data.random_resized_crop");
  }
  if (data.random_resized_crop && data.random_crop_padding > 0) {
    Conflict("data.random_crop_padding", "data.random_resized_crop cuts images at random already:",
             "Remove one of the two keys.");
  }
}

}  // namespace ddprun::trainer
