// Byte-level BPE, the tokenizer of GPT-2 and Llama 3: a regular expression divides text into words,
// and learnt merges combine their bytes. Equal to Hugging Face's tokenizers.
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

// Divides text into the words of byte-level BPE like the regular expressions of GPT-2 and Llama 3,
// but without a regular expression. LibTorch-free; pure.

enum class WordRule {
  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kGpt2,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
  // \s*[\r\n]+|\s+(?!\S)|\s+
  kLlama3,
  kOneDigit,  // Qwen 2: Llama 3's with \p{N} in place of \p{N}{1,3}
};

// Returns the bytes of the first word of `text`. REQUIRES: valid UTF-8, not empty; `text` continues
// to the end of the document, because a word may depend on the text after it.
size_t FirstWord(std::string_view text, WordRule rule);

struct BytePairOptions {
  WordRule rule = WordRule::kGpt2;
  bool add_prefix_space = false;  // before each text that does not begin with one
  bool ignore_merges = false;     // a word that is in the vocabulary becomes one token
  bool clean_up = false;          // Decode() ends with CleanUpText()
  SpecialIds special;
};

class BytePair final : public Tokenizer {
 public:
  // Tokens and merges spell bytes like GPT-2 (AlphabetCharacter). Words lose bytes that are not
  // tokens. Merges use ids of the vocabulary.
  BytePair(Vocabulary vocabulary, std::span<const Merge> merges, BytePairOptions options);

  void Encode(std::string_view utf8, std::vector<int32_t>& ids) const override;
  std::string Decode(std::span<const int32_t> ids) const override;
  int64_t vocab_size() const override { return vocabulary_.size(); }
  const SpecialIds& special() const override { return options_.special; }
  int32_t Find(std::string_view token) const override { return vocabulary_.Find(token); }
  bool splits_at_lines() const override { return splits_at_lines_; }

 private:
  class Words;  // the state of one call of Encode()

  void EncodePart(std::string_view text, Words& words) const;

  const Vocabulary vocabulary_;
  const BytePairOptions options_;
  const MergeTable merges_;
  const uint64_t cache_owner_ = WordCache::NextOwner();
  AddedTokenFinder raw_tokens_;
  AddedTokenFinder normalized_tokens_;  // found after raw_tokens_, because nothing normalizes text
  bool splits_at_lines_ = true;
  std::array<int32_t, 256> byte_ids_;
  std::vector<std::string> bytes_;  // by id: its bytes, or its text if it spells no bytes
  std::unordered_map<std::string_view, int32_t> whole_words_;  // views of bytes_; for ignore_merges
};

// Returns the character that spells a byte in vocabularies: printable bytes spell themselves,
// others begin at U+0100.
char32_t AlphabetCharacter(uint8_t byte);

// Returns the bytes that a token spells; nullopt if one of its characters spells no byte.
std::optional<std::string> BytesOfToken(std::string_view token);

}  // namespace ddprun::trainer
