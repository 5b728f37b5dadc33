// GPT-2 as Hugging Face's GPT2LMHeadModel (transformers 4.57): the same parameter names, layouts,
// activation and initial distribution.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/models/model.h"

namespace ddprun::trainer {

struct GptOptions {
  int64_t vocab_size = 256;
  int64_t n_positions = 1024;  // longest sequence
  int64_t n_embd = 128;
  int64_t n_layer = 4;
  int64_t n_head = 4;
  int64_t n_inner = 0;                  // width of the MLP; 0: 4 * n_embd
  std::string activation = "gelu_new";  // Hugging Face's name of a GELU
  double layer_norm_epsilon = 1e-5;
  double dropout = 0.0;  // of residuals
  double embedding_dropout = 0.0;
  double attention_dropout = 0.0;
  double label_smoothing = 0.0;
  bool tie_word_embeddings = true;  // the output layer is the token embedding
  // False: weights are left as they come, for a rank that receives them by broadcast or file.
  // True: drawn from torch's default generator.
  bool initialize = true;
};

// Batches: those of causal_model.h. Throws Failure when a size is not positive or n_embd does not
// divide by n_head.
std::shared_ptr<LanguageModel> MakeGpt(const GptOptions& options);

}  // namespace ddprun::trainer
