#include "trainer/config/checker.h"

namespace ddprun::trainer {

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
  const bool text = data.format == DataFormat::kText;
  const bool gpt = config_.model.type == ModelType::kGpt;
  if (gpt && !text) {
    return Conflict("data.format", "model.type \"gpt\" trains on text, not on random tensors:",
                    "Set data.format to \"text\", or model.type to \"mlp\".");
  }
  if (!gpt && text) {
    const std::string path = Given("data.format") ? "data.format" : "model.type";
    return Conflict(path, "model.type \"mlp\" trains on random tensors, not on text:",
                    "Set data.format to \"random\", or model.type to \"gpt\".");
  }
  if (text) {
    if (data.train_files.empty()) Missing("data.train_files", "data.format \"text\"");
    if (data.validation_fraction > 0 && !data.validation_files.empty()) {
      Conflict("data.validation_fraction",
               "There are data.validation_files already, so no share of the training text is "
               "needed:",
               "Remove one of the two keys.");
    }
    return;
  }
  if (data.num_samples == 0) Missing("data.num_samples", "data.format \"random\"");
  if (config_.model.layer_sizes.empty()) return;  // reported already
  CheckSize("data.input_size", data.input_size, "first", config_.model.layer_sizes.front());
  CheckSize("data.target_size", data.target_size, "last", config_.model.layer_sizes.back());
}

}  // namespace ddprun::trainer
