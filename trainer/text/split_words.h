// Cuts text into the words that byte-level BPE works on, as the regular expressions of GPT-2 and
// Llama 3 do, without a regular expression. LibTorch-free; pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace ddprun::trainer {

enum class WordRule {
  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kGpt2,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
  // \s*[\r\n]+|\s+(?!\S)|\s+
  kLlama3,
  kOneDigit,  // Qwen 2: Llama 3's with \p{N} in place of \p{N}{1,3}
};

// Bytes of the first word of `text`. REQUIRES: valid UTF-8, not empty; `text` goes on to the end
// of the document, as a word may depend on what follows it.
size_t FirstWord(std::string_view text, WordRule rule);

}  // namespace ddprun::trainer
