// Byte-level BPE, the tokenizer of GPT-2 and Llama 3: words cut by a regular expression, their
// bytes put together by learnt merges. Equal to Hugging Face's tokenizers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trainer/text/merge_table.h"
#include "trainer/text/tokenizer.h"
#include "trainer/text/vocabulary.h"
#include "trainer/text/word_cache.h"

namespace ddprun::trainer {

// Cuts text into the words that byte-level BPE works on, as the regular expressions of GPT-2 and
// Llama 3 do, without a regular expression. LibTorch-free; pure.

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

struct BytePairOptions {
  WordRule rule = WordRule::kGpt2;
  bool add_prefix_space = false;  // before each text that does not begin with one
  bool ignore_merges = false;     // a word that is a token is that token
  SpecialIds special;
};

class BytePair final : public Tokenizer {
 public:
  // Tokens and merges spell bytes as GPT-2 does (AlphabetCharacter). A byte that is no token is
  // left out of words. Merges are of ids in the vocabulary.
  BytePair(Vocabulary vocabulary, std::span<const Merge> merges, BytePairOptions options);

  void Encode(std::string_view utf8, std::vector<int32_t>& ids) const override;
  std::string Decode(std::span<const int32_t> ids) const override;
  int64_t vocab_size() const override { return vocabulary_.size(); }
  const SpecialIds& special() const override { return options_.special; }
  int32_t Find(std::string_view token) const override { return vocabulary_.Find(token); }
  bool splits_at_lines() const override { return splits_at_lines_; }

 private:
  class Words;  // what one call of Encode works with

  void EncodePart(std::string_view text, Words& words) const;

  const Vocabulary vocabulary_;
  const BytePairOptions options_;
  const MergeTable merges_;
  const uint64_t cache_owner_ = WordCache::NextOwner();
  AddedTokenFinder raw_tokens_;
  AddedTokenFinder normalized_tokens_;  // nothing normalizes: found after the others
  bool splits_at_lines_ = true;
  std::array<int32_t, 256> byte_ids_;
  std::vector<std::string> bytes_;  // of each id; its text where that spells no bytes
  std::unordered_map<std::string_view, int32_t> whole_words_;  // of bytes_; with ignore_merges
};

// The character that spells a byte in vocabularies: printable ones themselves, others from U+0100.
char32_t AlphabetCharacter(uint8_t byte);

// The bytes that a token spells; none where it has a character that spells no byte.
std::optional<std::string> BytesOfToken(std::string_view token);

}  // namespace ddprun::trainer
