// Tokens from a language model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/models/language_model.h"

namespace ddprun::trainer {

struct SamplingOptions {
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 40;        // draw among the k likeliest; 0: all
  double top_p = 1.0;        // draw among the likeliest that together have this probability
  uint64_t seed = 42;
  std::vector<int64_t> stop_tokens = {};  // any ends the text and is no part of it
  int64_t vocab_size = 0;                 // draw among the first so many tokens; 0: all
};

// Up to `count` tokens that follow `prompt`, without it. The model sees the last context_length()
// tokens; each costs one step while they all fit, and the whole context beyond. Its training mode
// is put back afterwards; no gradients are recorded. REQUIRES: a prompt of at least one token.
std::vector<int64_t> GenerateTokens(LanguageModel& model,
                                    std::span<const int64_t> prompt,
                                    int64_t count,
                                    const SamplingOptions& options);

}  // namespace ddprun::trainer
