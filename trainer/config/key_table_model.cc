// Which model is trained.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

std::vector<Key> ModelKeys() {
  return {
      {.section = "model",
       .name = "type",
       .slot = At<&Config::model, &ModelConfig::type>,
       .meaning =
           "The architecture: \"bert\" for classes of texts and pairs of texts, \"gpt\" (GPT-2) "
           "and \"llama\" for the next token, \"mlp\" a chain of linear layers, \"linear\" one of "
           "them; \"cnn\" and \"resnet18\" to \"resnet101\" for images; \"torchscript\" a model "
           "defined in Python, \"plugin\" one of your own in C++. Those for images and \"linear\" "
           "have as many outputs as the data "
           "needs.",
       .required = true,
       .aliases = {{"model_type", "Hugging Face"}, {"architecture", "torchtitan"}}},
      {.section = "model",
       .name = "name_or_path",
       .slot = At<&Config::model, &ModelConfig::name_or_path>,
       .meaning = "Hugging Face folder (config.json, model.safetensors) to start from, whose sizes "
                  "are taken; empty: fresh weights.",
       .input_path = true,
       .aliases = {{"model_name_or_path", "Hugging Face"}, {"init_from", "nanoGPT"}}},
  };
}

std::vector<Key> TransformerKeys() {
  return {
      {.section = "model",
       .name = "hidden_size",
       .slot = At<&Config::model, &ModelConfig::hidden_size>,
       .meaning = "Width of the residual stream; a multiple of model.num_attention_heads.",
       .range = kSize,
       .only_for = "model.type",
       .only_values = {"bert", "gpt", "llama", "cnn"},
       .aliases = {{"n_embd", "nanoGPT"}, {"d_model", "PyTorch"}, {"dim", "torchtitan"}}},
      {.section = "model",
       .name = "num_hidden_layers",
       .slot = At<&Config::model, &ModelConfig::num_hidden_layers>,
       .meaning = "Depth: number of transformer blocks.",
       .range = Between(1, 10000),
       .only_for = "model.type",
       .only_values = {"bert", "gpt", "llama"},
       .aliases = {{"n_layer", "nanoGPT"}, {"n_layers", "torchtitan"}, {"num_layers", "PyTorch"}}},
      {.section = "model",
       .name = "num_attention_heads",
       .slot = At<&Config::model, &ModelConfig::num_attention_heads>,
       .meaning = "Attention heads of a block.",
       .range = kSize,
       .only_for = "model.type",
       .only_values = {"bert", "gpt", "llama"},
       .aliases = {{"n_head", "nanoGPT"}, {"n_heads", "torchtitan"}, {"num_heads", "PyTorch"}}},
      {.section = "model",
       .name = "intermediate_size",
       .slot = At<&Config::model, &ModelConfig::intermediate_size>,
       .meaning = "Width inside the feed-forward part of a block; 0 means 4 * model.hidden_size.",
       .range = kSizeOrZero,
       .derived_default = "4 * model.hidden_size",
       .only_for = "model.type",
       .only_values = {"bert", "gpt", "llama"},
       .aliases = {{"n_inner", "GPT-2"}, {"ffn_dim", "OPT"}, {"dim_feedforward", "PyTorch"}}},
  };
}

std::vector<Key> TokenModelKeys() {
  return {
      {.section = "model",
       .name = "vocab_size",
       .slot = At<&Config::model, &ModelConfig::vocab_size>,
       .meaning = "Rows of the token embedding; text is read by bytes, which need 256.",
       .unit = "tokens",
       .range = kSize,
       .only_for = "model.type",
       .only_values = {"bert", "gpt", "llama"}},
      {.section = "model",
       .name = "max_position_embeddings",
       .slot = At<&Config::model, &ModelConfig::max_position_embeddings>,
       .meaning = "Longest sequence that the model can take.",
       .unit = "tokens",
       .range = kSizeOrZero,
       .derived_default = "data.max_seq_length",
       .only_for = "model.type",
       .only_values = {"bert", "gpt", "llama"},
       .aliases = {{"n_positions", "GPT-2"}, {"block_size", "nanoGPT"}}},
      {.section = "model",
       .name = "dropout",
       .slot = At<&Config::model, &ModelConfig::dropout>,
       .meaning = "Probability of dropout; worth raising when validation loss turns up. With "
                  "model.name_or_path the default is the folder's.",
       .range = kBelowOne,
       .only_for = "model.type",
       .only_values = {"bert", "gpt", "cnn"},
       .aliases = {{"resid_pdrop", "GPT-2"},
                   {"embd_pdrop", "GPT-2"},
                   {"hidden_dropout_prob", "Hugging Face"}}},
      {.section = "model",
       .name = "attention_dropout",
       .slot = At<&Config::model, &ModelConfig::attention_dropout>,
       .meaning = "Probability of dropout of the attention probabilities.",
       .range = kBelowOne,
       .derived_default = "model.dropout",
       .only_for = "model.type",
       .only_values = {"bert", "gpt", "llama"},
       .aliases = {{"attn_pdrop", "GPT-2"}, {"attention_probs_dropout_prob", "BERT"}}},
  };
}

std::vector<Key> BertKeys() {
  return {
      {.section = "model",
       .name = "classifier_dropout",
       .slot = At<&Config::model, &ModelConfig::classifier_dropout>,
       .meaning = "Probability of dropout before the classifier.",
       .range = kBelowOne,
       .derived_default = "model.dropout",
       .only_for = "model.type",
       .only_values = {"bert"}},
      {.section = "model",
       .name = "num_labels",
       .slot = At<&Config::model, &ModelConfig::num_labels>,
       .meaning = "Classes that the model tells apart; 1 predicts a number.",
       .range = Between(1, 1 << 20),
       .only_for = "model.type",
       .only_values = {"bert"},
       .aliases = {{"num_classes", "PyTorch examples"}}},
      {.section = "model",
       .name = "type_vocab_size",
       .slot = At<&Config::model, &ModelConfig::type_vocab_size>,
       .meaning = "Kinds of texts in one input: 2 for pairs.",
       .range = kSize,
       .only_for = "model.type",
       .only_values = {"bert"}},
  };
}

std::vector<Key> LlamaKeys() {
  return {
      {.section = "model",
       .name = "num_key_value_heads",
       .slot = At<&Config::model, &ModelConfig::num_key_value_heads>,
       .meaning = "Heads of keys and values, each shared by a group of attention heads.",
       .range = kSizeOrZero,
       .derived_default = "model.num_attention_heads",
       .only_for = "model.type",
       .only_values = {"llama"},
       .aliases = {{"n_kv_heads", "torchtitan"}}},
      {.section = "model",
       .name = "head_dim",
       .slot = At<&Config::model, &ModelConfig::head_dim>,
       .meaning = "Width of an attention head, an even number. Given, model.hidden_size need be no "
                  "multiple of model.num_attention_heads.",
       .range = kSizeOrZero,
       .derived_default = "model.hidden_size / model.num_attention_heads",
       .only_for = "model.type",
       .only_values = {"llama"}},
      {.section = "model",
       .name = "rms_norm_eps",
       .slot = At<&Config::model, &ModelConfig::rms_norm_eps>,
       .meaning = "Added to the mean square within the norms, against division by zero.",
       .range = Above(0),
       .only_for = "model.type",
       .only_values = {"llama"},
       .aliases = {{"norm_eps", "torchtitan"}}},
      {.section = "model",
       .name = "rope_theta",
       .slot = At<&Config::model, &ModelConfig::rope_theta>,
       .meaning = "Base of the rotary embedding's wavelengths; larger for longer sequences.",
       .range = Above(0),
       .only_for = "model.type",
       .only_values = {"llama"}},
      {.section = "model",
       .name = "rope_scaling",
       .slot = At<&Config::model, &ModelConfig::rope_scaling>,
       .meaning = "How positions beyond those of pre-training are reached, as in transformers: "
                  "{\"rope_type\": \"linear\" or \"dynamic\", \"factor\": 4.0}, or \"llama3\" "
                  "with factor, low_freq_factor, high_freq_factor and "
                  "original_max_position_embeddings.",
       .derived_default = "none",
       .only_for = "model.type",
       .only_values = {"llama"}},
      {.section = "model",
       .name = "attention_bias",
       .slot = At<&Config::model, &ModelConfig::attention_bias>,
       .meaning = "Whether queries, keys, values and the attention's output have biases.",
       .only_for = "model.type",
       .only_values = {"llama"}},
      {.section = "model",
       .name = "mlp_bias",
       .slot = At<&Config::model, &ModelConfig::mlp_bias>,
       .meaning = "Whether the linear layers of the feed-forward part have biases.",
       .only_for = "model.type",
       .only_values = {"llama"}},
      {.section = "model",
       .name = "tie_word_embeddings",
       .slot = At<&Config::model, &ModelConfig::tie_word_embeddings>,
       .meaning = "Whether the output layer is the token embedding.",
       .only_for = "model.type",
       .only_values = {"gpt", "llama"}},
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

std::vector<Key> OtherModelKeys() {
  return {
      {.section = "model",
       .name = "channels",
       .slot = At<&Config::model, &ModelConfig::channels>,
       .meaning = "Channels of each stage: a 3x3 convolution, ReLU and 2x2 pooling.",
       .range = kSize,
       .only_for = "model.type",
       .only_values = {"cnn"},
       .aliases = {{"hidden_channels", "PyTorch examples"}}},
      {.section = "model",
       .name = "path",
       .slot = At<&Config::model, &ModelConfig::path>,
       .meaning = "The TorchScript file, or the plugin's shared object: docs/torchscript.md, "
                  "docs/plugins.md.",
       .only_for = "model.type",
       .only_values = {"torchscript", "plugin"},
       .input_path = true},
      {.section = "model",
       .name = "options",
       .slot = At<&Config::model, &ModelConfig::options>,
       .meaning = "What the plugin's model is given as it stands here.",
       .only_for = "model.type",
       .only_values = {"plugin"}},
  };
}

}  // namespace ddprun::trainer
