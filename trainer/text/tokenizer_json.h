// tokenizer.json: Hugging Face's one file for a whole tokenizer. LibTorch-free.
#pragma once

#include <filesystem>
#include <memory>

#include "trainer/text/tokenizer.h"
#include "trainer/text/tokenizer_files.h"

namespace ddprun::trainer {

// What it says about truncation and padding is the caller's to do. `config` overrides what it
// overrides in `transformers`. Throws Failure.
std::unique_ptr<Tokenizer> LoadTokenizerJson(const std::filesystem::path& file,
                                             const TokenizerConfig& config);

}  // namespace ddprun::trainer
