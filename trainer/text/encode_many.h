// Many texts at once, on several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {

// The ids of each text, in the texts' order; the calling thread is one of the `threads` (>= 1).
std::vector<std::vector<int32_t>> EncodeMany(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> texts,
                                             int threads);

// Runs `work` on `threads` threads at once, the calling one among them. Throws the exception of
// one of them, if there was any, when all have ended.
void RunOnThreads(int threads, const std::function<void()>& work);

}  // namespace ddprun::trainer
