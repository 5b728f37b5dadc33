#include "trainer/config/checker.h"

namespace ddprun::trainer {

void Checker::CheckModel() {
  const ModelConfig& model = config_.model;
  if (model.type == ModelType::kGpt) {
    if (model.hidden_size % model.num_attention_heads != 0) {
      const bool heads = Given("model.num_attention_heads");
      Conflict(heads ? "model.num_attention_heads" : "model.hidden_size",
               "model.hidden_size (" + std::to_string(model.hidden_size) +
                   ") is no multiple of model.num_attention_heads (" +
                   std::to_string(model.num_attention_heads) + "):",
               "Every head takes an equal share of the hidden size.");
    }
    const bool bytes =
        config_.data.tokenizer.empty() &&
        (config_.data.format == DataFormat::kText || config_.data.format == DataFormat::kJsonLines);
    if (bytes && model.vocab_size < 256) {
      Conflict("model.vocab_size", "Text is read by bytes, and bytes have 256 values:",
               "Set model.vocab_size to 256 or more.");
    }
    return;
  }
  if (model.layer_sizes.empty()) return Missing("model.layer_sizes", "model.type \"mlp\"");
  if (model.layer_sizes.size() < 2) {
    Conflict("model.layer_sizes", "One size makes no layer:",
             "Give the input and the output size at least, as in [10, 5].");
  }
}

}  // namespace ddprun::trainer
