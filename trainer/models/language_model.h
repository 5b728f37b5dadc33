// Models of the next token.
#pragma once

#include <cstdint>

#include "trainer/models/kv_cache.h"
#include "trainer/models/model.h"

namespace ddprun::trainer {

// A model that predicts the next token, for GenerateTokens() (generate.h).
class LanguageModel : public Model {
 public:
  // Returns scores [B, L, vocab_size] of the token after each of the inputs [B, L], L <=
  // context_length().
  virtual at::Tensor Logits(const at::Tensor& inputs) = 0;
  // Returns scores [B, vocab_size] of the token after inputs [B, L]. The inputs follow the tokens
  // of `cache` and are added to it; at most context_length() in all. A model that keeps no keys
  // computes all tokens again. REQUIRES: L is 1 unless the cache is new, no gradients, eval mode.
  virtual at::Tensor NextScores(const at::Tensor& inputs, KeyValueCache& cache);
  virtual int64_t context_length() const = 0;
  virtual int64_t vocab_size() const = 0;
};

}  // namespace ddprun::trainer
