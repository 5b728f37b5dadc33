// Which model is trained.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

std::vector<Key> ModelKeys() {
  return {
      {.section = "model",
       .name = "type",
       .slot = At<&Config::model, &ModelConfig::type>,
       .meaning = "The architecture: \"gpt\" is GPT-2, \"mlp\" a chain of linear layers.",
       .required = true,
       .aliases = {{"model_type", "Hugging Face"}, {"architecture", "torchtitan"}}},
      {.section = "model",
       .name = "name_or_path",
       .slot = At<&Config::model, &ModelConfig::name_or_path>,
       .meaning = "Folder with model.safetensors to start from; empty: fresh weights.",
       .input_path = true,
       .aliases = {{"model_name_or_path", "Hugging Face"}, {"init_from", "nanoGPT"}}},
  };
}

std::vector<Key> GptKeys() {
  return {
      {.section = "model",
       .name = "hidden_size",
       .slot = At<&Config::model, &ModelConfig::hidden_size>,
       .meaning = "Width of the residual stream; a multiple of model.num_attention_heads.",
       .range = kSize,
       .only_for = "model.type",
       .only_values = {"gpt"},
       .aliases = {{"n_embd", "nanoGPT"}, {"d_model", "PyTorch"}, {"dim", "torchtitan"}}},
      {.section = "model",
       .name = "num_hidden_layers",
       .slot = At<&Config::model, &ModelConfig::num_hidden_layers>,
       .meaning = "Depth: number of transformer blocks.",
       .range = Between(1, 10000),
       .only_for = "model.type",
       .only_values = {"gpt"},
       .aliases = {{"n_layer", "nanoGPT"}, {"n_layers", "torchtitan"}, {"num_layers", "PyTorch"}}},
      {.section = "model",
       .name = "num_attention_heads",
       .slot = At<&Config::model, &ModelConfig::num_attention_heads>,
       .meaning = "Attention heads of a block.",
       .range = kSize,
       .only_for = "model.type",
       .only_values = {"gpt"},
       .aliases = {{"n_head", "nanoGPT"}, {"n_heads", "torchtitan"}, {"num_heads", "PyTorch"}}},
      {.section = "model",
       .name = "intermediate_size",
       .slot = At<&Config::model, &ModelConfig::intermediate_size>,
       .meaning = "Width inside the feed-forward part of a block; 0 means 4 * model.hidden_size.",
       .range = kSizeOrZero,
       .derived_default = "4 * model.hidden_size",
       .only_for = "model.type",
       .only_values = {"gpt"},
       .aliases = {{"n_inner", "GPT-2"}, {"ffn_dim", "OPT"}, {"dim_feedforward", "PyTorch"}}},
      {.section = "model",
       .name = "vocab_size",
       .slot = At<&Config::model, &ModelConfig::vocab_size>,
       .meaning = "Rows of the token embedding; text is read by bytes, which need 256.",
       .unit = "tokens",
       .range = kSize,
       .only_for = "model.type",
       .only_values = {"gpt"}},
      {.section = "model",
       .name = "dropout",
       .slot = At<&Config::model, &ModelConfig::dropout>,
       .meaning = "Probability of every dropout; worth raising when validation loss turns up.",
       .range = kBelowOne,
       .only_for = "model.type",
       .only_values = {"gpt"},
       .aliases = {{"resid_pdrop", "GPT-2"},
                   {"embd_pdrop", "GPT-2"},
                   {"attn_pdrop", "GPT-2"},
                   {"hidden_dropout_prob", "Hugging Face"}}},
  };
}

std::vector<Key> MlpKeys() {
  return {
      {.section = "model",
       .name = "layer_sizes",
       .slot = At<&Config::model, &ModelConfig::layer_sizes>,
       .meaning = "Values in and out of the linear layers: [10, 10, 5] is two layers.",
       .range = kSize,
       .only_for = "model.type",
       .only_values = {"mlp"},
       .aliases = {{"hidden_layer_sizes", "scikit-learn"}, {"hidden_sizes", "PyTorch examples"}}},
      {.section = "model",
       .name = "activation",
       .slot = At<&Config::model, &ModelConfig::activation>,
       .meaning = "Between the linear layers, not after the last one.",
       .only_for = "model.type",
       .only_values = {"mlp"},
       .aliases = {{"hidden_act", "Hugging Face"}}},
  };
}

}  // namespace ddprun::trainer
