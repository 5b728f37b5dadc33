// Many texts at once, on several threads.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {

// The ids of each text, in the texts' order; the calling thread is one of the `threads` (>= 1).
std::vector<std::vector<int32_t>> EncodeMany(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> texts,
                                             int threads);

}  // namespace ddprun::trainer
