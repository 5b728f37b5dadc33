#include "trainer/config/library_defaults.h"

#include <algorithm>

#include "trainer/config/keys.h"

namespace ddprun::trainer {

namespace {

constexpr LibraryDefault kDefaults[] = {
    {"optimizer.learning_rate", "0.001", "5e-05"},
    {"optimizer.betas", "[0.9,0.999]", "[0.9,0.999]"},
    {"optimizer.weight_decay", "0.01 for adamw", "0"},
    {"optimizer.no_decay", "none: all decay", "biases and norms"},
    {"training.max_grad_norm", "0", "1"},
    {"scheduler.lr_scheduler_type", "\"constant\"", "\"linear\""},
    {"run.max_epochs", "", "3"},
};

bool IsFor(const Key& key, OptimizerType type) {
  const auto& types = key.only_for.values;
  return key.only_for.key != "optimizer.type" ||
         std::ranges::find(types, Word(type)) != types.end();
}

}  // namespace

std::span<const LibraryDefault> LibraryDefaults() {
  return kDefaults;
}

std::string UnlikePyTorch(const Config& config) {
  const OptimizerType type = config.optimizer.type;
  // The rows have the numbers of AdamW, Adam and SGD.
  const bool in_rows = type != OptimizerType::kAdagrad && type != OptimizerType::kLion;
  if (!config.optimizer.type_given || !in_rows) return "";
  std::string text;
  for (const LibraryDefault& row : kDefaults) {
    const Key& key = GetKey(row.path);
    // Leaves out no_decay, which is long and matters only with weight_decay.
    const bool told = !row.pytorch.empty() && row.path != "optimizer.no_decay";
    if (!told || !IsFor(key, type) || !IsDefault(key, config)) continue;
    text += (text.empty() ? "defaults that differ from PyTorch's: " : ", ") +
            std::string(key.name) + " " + ValueText(key, config) + " (" +
            std::string(row.pytorch.substr(0, row.pytorch.find(' '))) + ")";
  }
  return text;
}

}  // namespace ddprun::trainer
