// GPT-2, with the parameter names, layouts, activation and initial distribution of Hugging Face's
// GPT2LMHeadModel (transformers 4.57).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/models/language_model.h"
#include "trainer/models/layers.h"

namespace ddprun::trainer {

struct GptOptions : TransformerOptions {
  static constexpr const char* kType = "gpt";
  static constexpr TiedHead kTiedHead = {"lm_head.weight", "transformer.wte.weight"};

  std::string hidden_act = "gelu_new";  // Hugging Face's name of a GELU
  double layer_norm_epsilon = 1e-5;
  double dropout = 0.0;  // of residuals
  double embedding_dropout = 0.0;
  bool tie_word_embeddings = true;  // the output layer is the token embedding

  bool operator==(const GptOptions&) const = default;
};

// Makes the model. Batches: see causal_model.h. Throws Failure for wrong sizes.
std::shared_ptr<LanguageModel> MakeGpt(const GptOptions& options);

}  // namespace ddprun::trainer
