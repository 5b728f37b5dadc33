// GPT-2 as Hugging Face's GPT2LMHeadModel (transformers 4.57): the same parameter names, layouts,
// activation (gelu_new) and initial distribution, output layer tied to the token embedding.
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/models/model.h"

namespace ddprun::trainer {

struct GptOptions {
  int64_t vocab_size = 256;
  int64_t n_positions = 1024;  // longest sequence
  int64_t n_embd = 128;
  int64_t n_layer = 4;
  int64_t n_head = 4;
  int64_t n_inner = 0;   // width of the MLP; 0: 4 * n_embd
  double dropout = 0.0;  // embedding, attention and residual dropout
  // False: weights are left as they come, for a rank that receives them by broadcast or file.
  // True: drawn from torch's default generator.
  bool initialize = true;
};

// Throws Failure when a size is not positive or n_embd does not divide by n_head.
std::shared_ptr<LanguageModel> MakeGpt(const GptOptions& options);

}  // namespace ddprun::trainer
