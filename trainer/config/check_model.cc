#include "trainer/config/checker.h"

namespace ddprun::trainer {

namespace {

void CheckHeads(Checker& check) {
  const ModelConfig& model = check.config.model;
  const bool heads = check.Given("model.num_attention_heads");
  const std::string heads_text =
      "model.num_attention_heads (" + std::to_string(model.num_attention_heads) + ")";
  const bool llama = model.type == ModelType::kLlama;
  const bool own_size = llama && check.Given("model.head_dim");
  if (!own_size && model.hidden_size % model.num_attention_heads != 0) {
    check.Conflict(heads ? "model.num_attention_heads" : "model.hidden_size",
                   "model.hidden_size (" + std::to_string(model.hidden_size) +
                       ") is no multiple of " + heads_text + ":",
                   "Every head takes an equal share of the hidden size.");
  } else if (llama && model.head_dim % 2 != 0) {
    check.Conflict(own_size ? "model.head_dim"
                   : heads  ? "model.num_attention_heads"
                            : "model.hidden_size",
                   "A head is " + std::to_string(model.head_dim) + " wide (model.head_dim):",
                   "The rotary embedding turns pairs of values: make it an even number.");
  }
  if (llama && model.num_attention_heads % model.num_key_value_heads != 0) {
    check.Conflict("model.num_key_value_heads",
                   heads_text + " is no multiple of model.num_key_value_heads (" +
                       std::to_string(model.num_key_value_heads) + "):",
                   "Every head of keys and values serves equally many attention heads.");
  }
}

void CheckTransformer(Checker& check) {
  const ModelConfig& model = check.config.model;
  CheckHeads(check);
  // A plugin decides the length of its samples.
  const bool has_length = check.config.data.format != DataFormat::kPlugin;
  if (has_length && check.config.data.max_seq_length > model.max_position_embeddings) {
    check.Conflict("model.max_position_embeddings",
                   "data.max_seq_length (" + std::to_string(check.config.data.max_seq_length) +
                       ") is more than model.max_position_embeddings (" +
                       std::to_string(model.max_position_embeddings) + "):",
                   "The model must be able to take the longest sample.");
  }
  const bool bytes =
      check.config.data.tokenizer.empty() && (check.config.data.format == DataFormat::kText ||
                                              check.config.data.format == DataFormat::kJsonLines);
  if (bytes && model.vocab_size < 256) {
    check.Conflict("model.vocab_size", "Text is read by bytes, and bytes have 256 values:",
                   "Set model.vocab_size to 256 or more.");
  }
}

}  // namespace

void CheckModel(Checker& check) {
  const ModelConfig& model = check.config.model;
  if (model.type == ModelType::kLlama) CheckRopeScaling(check);
  if (IsTransformer(model.type)) {
    // A folder's sizes are known only after it is opened (loop/open_parts.h).
    if (model.name_or_path.empty()) CheckTransformer(check);
    return;
  }
  const bool from_file = model.type == ModelType::kTorchScript || model.type == ModelType::kPlugin;
  if (from_file && model.path.empty()) {
    check.Missing("model.path", "model.type \"" + std::string(Word(model.type)) + "\"");
  }
  if (model.type == ModelType::kCnn && model.channels.empty()) {
    check.Conflict("model.channels", "A network without stages has no convolution:",
                   "Give the channels of one stage at least, as in [32].");
  }
  if (model.type != ModelType::kMlp) return;
  if (model.layer_sizes.empty()) return check.Missing("model.layer_sizes", "model.type \"mlp\"");
  if (model.layer_sizes.size() < 2) {
    check.Conflict("model.layer_sizes", "One size makes no layer:",
                   "Give the input and the output size at least, as in [10, 5].");
  }
}

}  // namespace ddprun::trainer
