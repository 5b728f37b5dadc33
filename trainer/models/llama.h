// The Llama family, with the parameter names, rotary embedding and initial distribution of Hugging
// Face's LlamaForCausalLM (transformers 4.57).
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/models/language_model.h"
#include "trainer/models/layers.h"

namespace ddprun::trainer {

// The scaling of rotary angles for positions beyond those of pre-training: config.json's
// "rope_scaling".
struct RopeScaling {
  enum class Type { kNone, kLinear, kDynamic, kLlama3 };
  Type type = Type::kNone;
  // dynamic: changes angles only in sequences longer than max_position_embeddings, which this model
  // does not take. The value is kept for other programs that read the folder.
  double factor = 1.0;
  // llama3: wavelengths up to original / high_freq_factor positions do not change, those beyond
  // original / low_freq_factor are stretched by `factor`, and those between are stretched in part.
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;

  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

struct LlamaOptions : TransformerOptions {
  static constexpr const char* kType = "llama";
  static constexpr TiedHead kTiedHead = {"lm_head.weight", "model.embed_tokens.weight"};

  int64_t num_key_value_heads = 0;  // groups of heads share keys and values; 0: none do
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;  // the slowest rotation's wavelength grows with it
  RopeScaling rope_scaling = {};
  bool attention_bias = false;
  bool mlp_bias = false;
  bool tie_word_embeddings = true;
  int64_t pad_token_id = -1;  // its embedding is not trained as input; -1: none

  bool operator==(const LlamaOptions&) const = default;
};

// Makes the model. Batches: see causal_model.h. Throws Failure for wrong sizes.
std::shared_ptr<LanguageModel> MakeLlama(const LlamaOptions& options);

// Returns the radians per position of each pair of a head's dimensions: float32 [head_dim / 2].
at::Tensor RotaryFrequencies(int64_t head_dim, double theta, const RopeScaling& scaling);

}  // namespace ddprun::trainer
