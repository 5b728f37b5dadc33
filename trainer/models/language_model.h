// Models of the next token.
#pragma once

#include <cstdint>

#include "trainer/models/kv_cache.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

// A model that predicts the next token; for GenerateTokens (generate.h).
class LanguageModel : public Model {
 public:
  // Scores [B, L, vocab_size] of the token after each of inputs [B, L], L <= context_length().
  virtual at::Tensor Logits(const at::Tensor& inputs) = 0;
  // Scores [B, vocab_size] of the token after inputs [B, L], which follow the tokens that `cache`
  // has seen and are added to it; context_length() in all at most. REQUIRES: L is 1 unless the
  // cache is new, no gradients, eval mode. A model that keeps no keys computes all anew.
  virtual at::Tensor NextScores(const at::Tensor& inputs, KeyValueCache& cache);
  virtual int64_t context_length() const = 0;
  virtual int64_t vocab_size() const = 0;
};

}  // namespace ddprun::trainer
