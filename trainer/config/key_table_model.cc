// Keys of the model.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

std::vector<Key> ModelKeys() {
  return {
      {.DDPRUN_KEY(model, type),
       .meaning =
           "The architecture: \"bert\" for classes of texts and pairs of texts, \"gpt\" (GPT-2) "
           "and \"llama\" for the next token, \"mlp\" a chain of linear layers, \"linear\" one of "
           "them; \"cnn\" and \"resnet18\" to \"resnet101\" for images; \"torchscript\" a model "
           "defined in Python, \"plugin\" one of your own in C++. Those for images and \"linear\" "
           "have as many outputs as the data "
           "needs.",
       .required = true,
       .aliases = {{"model_type", "Hugging Face"},
                   {"architecture name", "torchtitan"},
                   {"model", "PyTorch examples"},
                   {"arch", "torchvision"}}},
      {.DDPRUN_KEY(model, name_or_path),
       .meaning = "Hugging Face folder (config.json, model.safetensors) to start from, whose sizes "
                  "are taken; empty: fresh weights.",
       .input_path = true,
       .aliases = {{"model_name_or_path pretrained_model_name_or_path model_name from_pretrained",
                    "Hugging Face"},
                   {"init_from", "nanoGPT"},
                   {"pretrained", "timm"},
                   {"weights", "torchvision"},
                   {"model_path", "PyTorch examples"}}},
  };
}

std::vector<Key> TransformerKeys() {
  return {
      {.DDPRUN_KEY(model, hidden_size),
       .meaning = "Width of the residual stream; a multiple of model.num_attention_heads.",
       .range = kSize,
       .only_for = {"model.type", {"bert", "gpt", "llama", "cnn"}},
       .aliases = {{"n_embd", "nanoGPT"},
                   {"d_model embed_dim embedding_dim", "PyTorch"},
                   {"dim", "torchtitan"},
                   {"hidden_dim", "PyTorch examples"}}},
      {.DDPRUN_KEY(model, num_hidden_layers),
       .meaning = "Depth: number of transformer blocks.",
       .range = Between(1, 10000),
       .only_for = {"model.type", {"bert", "gpt", "llama"}},
       .aliases = {{"n_layer", "nanoGPT"},
                   {"n_layers", "torchtitan"},
                   {"num_layers", "PyTorch"},
                   {"depth", "timm"},
                   {"nlayers", "PyTorch examples"}}},
      {.DDPRUN_KEY(model, num_attention_heads),
       .meaning = "Attention heads of a block.",
       .range = kSize,
       .only_for = {"model.type", {"bert", "gpt", "llama"}},
       .aliases = {{"n_head", "nanoGPT"},
                   {"n_heads", "torchtitan"},
                   {"num_heads nhead", "PyTorch"}}},
      {.DDPRUN_KEY(model, intermediate_size),
       .meaning = "Width inside the feed-forward part of a block; 0 means 4 * model.hidden_size.",
       .range = kSizeOrZero,
       .derived_default = "4 * model.hidden_size",
       .only_for = {"model.type", {"bert", "gpt", "llama"}},
       .aliases = {{"n_inner", "GPT-2"},
                   {"ffn_dim", "OPT"},
                   {"dim_feedforward", "PyTorch"},
                   {"ffn_hidden_size", "Megatron"},
                   {"mlp_dim", "torchvision"}}},
      {.DDPRUN_KEY(model, vocab_size),
       .meaning = "Rows of the token embedding; text is read by bytes, which need 256.",
       .unit = "tokens",
       .range = kSize,
       .only_for = {"model.type", {"bert", "gpt", "llama"}},
       .aliases = {{"padded_vocab_size", "LitGPT"}, {"ntoken", "PyTorch examples"}}},
      {.DDPRUN_KEY(model, max_position_embeddings),
       .meaning = "Longest sequence that the model can take.",
       .unit = "tokens",
       .range = kSizeOrZero,
       .derived_default = "data.max_seq_length",
       .only_for = {"model.type", {"bert", "gpt", "llama"}},
       .aliases = {{"n_positions n_ctx", "GPT-2"}, {"block_size", "nanoGPT"}}},
      {.DDPRUN_KEY(model, dropout),
       .meaning = "Probability of dropout; worth raising when validation loss turns up. With "
                  "model.name_or_path the default is the folder's.",
       .range = kBelowOne,
       .only_for = {"model.type", {"bert", "gpt", "cnn"}},
       .aliases = {{"resid_pdrop", "GPT-2"},
                   {"hidden_dropout_prob", "Hugging Face"},
                   {"dropout_rate", "Keras"},
                   {"drop_rate", "timm"}}},
      {.DDPRUN_KEY(model, attention_dropout),
       .meaning = "Probability of dropout of the attention probabilities.",
       .range = kBelowOne,
       .derived_default = "model.dropout",
       .only_for = {"model.type", {"bert", "gpt", "llama"}},
       .aliases = {{"attn_pdrop", "GPT-2"}, {"attention_probs_dropout_prob", "BERT"}}},
  };
}

std::vector<Key> BertAndLlamaKeys() {
  return {
      {.DDPRUN_KEY(model, classifier_dropout),
       .meaning = "Probability of dropout before the classifier.",
       .range = kBelowOne,
       .derived_default = "model.dropout",
       .only_for = {"model.type", {"bert"}}},
      {.DDPRUN_KEY(model, num_labels),
       .meaning = "Classes that the model tells apart; 1 predicts a number.",
       .range = Between(1, 1 << 20),
       .only_for = {"model.type", {"bert"}},
       .aliases = {{"num_classes n_classes", "PyTorch examples"}}},
      {.DDPRUN_KEY(model, type_vocab_size),
       .meaning = "Kinds of texts in one input: 2 for pairs.",
       .range = kSize,
       .only_for = {"model.type", {"bert"}}},
      {.DDPRUN_KEY(model, num_key_value_heads),
       .meaning = "Heads of keys and values, each shared by a group of attention heads.",
       .range = kSizeOrZero,
       .derived_default = "model.num_attention_heads",
       .only_for = {"model.type", {"llama"}},
       .aliases = {{"n_kv_heads", "torchtitan"}}},
      {.DDPRUN_KEY(model, head_dim),
       .meaning = "Width of an attention head, an even number. Given, model.hidden_size need be no "
                  "multiple of model.num_attention_heads.",
       .range = kSizeOrZero,
       .derived_default = "model.hidden_size / model.num_attention_heads",
       .only_for = {"model.type", {"llama"}}},
      {.DDPRUN_KEY(model, rms_norm_eps),
       .meaning = "Added to the mean square within the norms, against division by zero.",
       .range = Above(0),
       .only_for = {"model.type", {"llama"}},
       .aliases = {{"norm_eps", "torchtitan"}}},
      {.DDPRUN_KEY(model, rope_theta),
       .meaning = "Base of the rotary embedding's wavelengths; larger for longer sequences.",
       .range = Above(0),
       .only_for = {"model.type", {"llama"}}},
      {.DDPRUN_KEY(model, rope_scaling),
       .meaning = "How positions beyond those of pre-training are reached, as in transformers: "
                  "{\"rope_type\": \"linear\" or \"dynamic\", \"factor\": 4.0}, or \"llama3\" "
                  "with factor, low_freq_factor, high_freq_factor and "
                  "original_max_position_embeddings.",
       .derived_default = "none",
       .only_for = {"model.type", {"llama"}}},
      {.DDPRUN_KEY(model, attention_bias),
       .meaning = "Whether queries, keys, values and the attention's output have biases.",
       .only_for = {"model.type", {"llama"}}},
      {.DDPRUN_KEY(model, mlp_bias),
       .meaning = "Whether the linear layers of the feed-forward part have biases.",
       .only_for = {"model.type", {"llama"}}},
      {.DDPRUN_KEY(model, tie_word_embeddings),
       .meaning = "Whether the output layer is the token embedding.",
       .only_for = {"model.type", {"gpt", "llama"}}},
  };
}

std::vector<Key> OtherModelKeys() {
  return {
      {.DDPRUN_KEY(model, embedding_dropout),
       .meaning = "Probability of dropout of the embeddings.",
       .range = kBelowOne,
       .derived_default = "model.dropout",
       .only_for = {"model.type", {"gpt"}},
       .aliases = {{"embd_pdrop", "GPT-2"}}},
      {.DDPRUN_KEY(model, layer_sizes),
       .meaning = "Values in and out of the linear layers: [10, 10, 5] is two layers.",
       .range = kSize,
       .only_for = {"model.type", {"mlp"}},
       .aliases = {{"hidden_layer_sizes", "scikit-learn"},
                   {"hidden_sizes input_size output_size input_dim output_dim", "PyTorch examples"},
                   {"in_features out_features", "PyTorch"},
                   {"units", "Keras"}}},
      {.DDPRUN_KEY(model, activation),
       .meaning = "Between the linear layers, not after the last one.",
       .only_for = {"model.type", {"mlp"}},
       .aliases = {{"hidden_act", "Hugging Face"},
                   {"nonlinearity", "PyTorch"},
                   {"act_layer", "timm"}}},
      {.DDPRUN_KEY(model, channels),
       .meaning = "Channels of each stage: a 3x3 convolution, ReLU and 2x2 pooling.",
       .range = kSize,
       .only_for = {"model.type", {"cnn"}},
       .aliases = {{"hidden_channels", "PyTorch examples"}}},
      {.DDPRUN_KEY(model, path),
       .meaning = "The TorchScript file, or the plugin's shared object: docs/torchscript.md, "
                  "docs/plugins.md.",
       .only_for = {"model.type", {"torchscript", "plugin"}},
       .input_path = true},
      {.DDPRUN_KEY(model, options),
       .meaning = "What the plugin's model is given as it stands here.",
       .only_for = {"model.type", {"plugin"}}},
  };
}

}  // namespace ddprun::trainer
