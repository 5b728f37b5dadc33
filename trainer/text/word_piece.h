// BERT's tokenizer: divides text into words at white space, punctuation and ideographs, then words
// into the longest pieces of the vocabulary, from the left. Equal to Hugging Face's
// BertTokenizerFast.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/text/bert_normalizer.h"
#include "trainer/text/tokenizer.h"
#include "trainer/text/vocabulary.h"
#include "trainer/text/word_cache.h"

namespace ddprun::trainer {

struct WordPieceOptions {
  BertNormalizerOptions normalizer;
  SpecialIds special;               // special.unknown must exist
  std::string continuation = "##";  // begins the pieces that continue a word
  int64_t max_word = 100;           // characters; longer words are unknown
  bool clean_up_tokens = true;      // Decode() does CleanUpToken()
  bool clean_up = false;            // Decode() ends with CleanUpText()
};

class WordPiece final : public Tokenizer {
 public:
  WordPiece(Vocabulary vocabulary, WordPieceOptions options);

  void Encode(std::string_view utf8, std::vector<int32_t>& ids) const override;
  std::string Decode(std::span<const int32_t> ids) const override;
  int64_t vocab_size() const override { return vocabulary_.size(); }
  const SpecialIds& special() const override { return options_.special; }
  int32_t Find(std::string_view token) const override { return vocabulary_.Find(token); }
  bool splits_at_lines() const override { return splits_at_lines_; }

 private:
  class Words;  // the words of one text, and their ids

  void FillTries();
  void EncodePart(std::string_view text, Words& words) const;
  void EncodeNormalized(std::string_view text, Words& words) const;
  size_t EncodeRare(std::string_view text, size_t begin, size_t at, Words& words) const;
  void AppendPieces(std::string_view word, std::vector<int32_t>& ids) const;

  const Vocabulary vocabulary_;
  const WordPieceOptions options_;
  const uint64_t cache_owner_ = WordCache::NextOwner();
  const BertNormalizer normalizer_;
  AddedTokenFinder raw_tokens_;         // found in the unchanged text
  AddedTokenFinder normalized_tokens_;  // found in normalized text
  bool splits_at_lines_ = true;
  std::array<BertNormalizer::Character, 128> ascii_;
  ByteTrie first_pieces_;
  ByteTrie next_pieces_;
};

}  // namespace ddprun::trainer
