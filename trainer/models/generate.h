// Generates tokens with a language model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trainer/models/language_model.h"

namespace ddprun::trainer {

struct SamplingOptions {
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 40;        // draw among the k likeliest; 0: all
  double top_p = 1.0;        // draw among the likeliest with this probability together
  uint64_t seed = 42;
  std::vector<int64_t> stop_tokens = {};  // each ends the text and is not part of it
  int64_t vocab_size = 0;                 // draw among the first vocab_size tokens; 0: all
  // Returns whether the text ends after these new tokens. Empty: nothing but stop_tokens ends it.
  std::function<bool(std::span<const int64_t> tokens)> ends = {};
};

// Returns up to `count` tokens that follow `prompt`, without the prompt. The model sees the last
// context_length() tokens; a token costs one step while all tokens fit, and later a pass over the
// whole context. Restores the model's training mode and records no gradients. REQUIRES: a prompt of
// at least one token.
std::vector<int64_t> GenerateTokens(LanguageModel& model,
                                    std::span<const int64_t> prompt,
                                    int64_t count,
                                    const SamplingOptions& options);

}  // namespace ddprun::trainer
