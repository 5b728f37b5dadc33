// Normalizes text before BERT looks for words, like Hugging Face's BertNormalizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trainer/text/code_point_table.h"

namespace ddprun::trainer {

struct BertNormalizerOptions {
  bool clean_text = true;            // removes controls, replaces white space by blanks
  bool handle_chinese_chars = true;  // puts blanks around ideographs
  bool strip_accents = true;
  bool lowercase = true;
};

// Immutable: any thread.
class BertNormalizer {
 public:
  explicit BertNormalizer(const BertNormalizerOptions& options);

  // REQUIRES: valid UTF-8.
  std::string Normalize(std::string_view text) const;

  // The role of a character for the word splitter.
  enum class Role : uint8_t {
    kPart,      // part of a word
    kSpace,     // between words
    kAlone,     // a separate word: punctuation, an ideograph
    kNothing,   // removed
    kSyllable,  // of Hangul: becomes two or three parts of a word
    kRare       // depends on its neighbours: needs Normalize()
  };
  struct Character {
    Role role;
    char32_t as;  // the result of kPart and kAlone; for kSyllable the syllable
  };
  // REQUIRES: c <= 0x10FFFF.
  Character LookUp(char32_t c) const {
    const uint32_t packed = table_[c];
    return {static_cast<Role>(packed >> 24), (c + packed) & 0xFFFFFF};
  }

 private:
  uint32_t Pack(char32_t c) const;

  const BertNormalizerOptions options_;
  // The role, and in 24 bits the number to add to a character: so most blocks are equal.
  const CodePointTable<uint32_t> table_;
};

// Returns the role of a character of normalized text: kPart, kSpace or kAlone.
BertNormalizer::Role RoleOfNormalized(char32_t c);

}  // namespace ddprun::trainer
