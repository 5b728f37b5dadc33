// What BERT makes of text before it looks for words: Hugging Face's BertNormalizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trainer/text/code_point_table.h"

namespace ddprun::trainer {

struct BertNormalizerOptions {
  bool clean_text = true;            // controls out, every white space a blank
  bool handle_chinese_chars = true;  // blanks around ideographs
  bool strip_accents = true;
  bool lowercase = true;
};

// Immutable: any thread.
class BertNormalizer {
 public:
  explicit BertNormalizer(const BertNormalizerOptions& options);

  // REQUIRES: valid UTF-8.
  std::string Normalize(std::string_view text) const;

  // What one character becomes, and what that is to the word splitter.
  enum class Role : uint8_t {
    kPart,      // part of a word
    kSpace,     // between words
    kAlone,     // a word of its own: punctuation, an ideograph
    kNothing,   // taken out
    kSyllable,  // of Hangul: becomes two or three parts of a word
    kRare       // depends on its neighbours: Normalize() must be asked
  };
  struct Character {
    Role role;
    char32_t as;  // of kPart and kAlone; for kSyllable the syllable
  };
  // REQUIRES: c <= 0x10FFFF.
  Character Look(char32_t c) const {
    const uint32_t packed = table_[c];
    return {static_cast<Role>(packed >> 24), (c + packed) & 0xFFFFFF};
  }

 private:
  uint32_t Pack(char32_t c) const;

  const BertNormalizerOptions options_;
  // The role, and in 24 bits what to add to a character: so most blocks of characters are alike.
  const CodePointTable<uint32_t> table_;
};

// The role of a character of normalized text: kPart, kSpace or kAlone.
BertNormalizer::Role RoleOfNormalized(char32_t c);

}  // namespace ddprun::trainer
