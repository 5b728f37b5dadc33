// Properties of characters as in Hugging Face's tokenizers 0.22. Their parts were built with
// different versions of Unicode, so each function names its version; later characters are
// unassigned for it. ICU of Unicode 14 or newer answers; unicode.cc adds what it may lack.
// tests/trainer/text compares every character. LibTorch-free; pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::trainer {

// Returns whether `c` is White_Space: 25 characters, equal in every version.
bool IsWhiteSpace(char32_t c);

// Returns whether Python's str.isspace(), and so Jinja's "trim", counts `c`: as above, or U+001C to
// U+001F.
bool IsPythonSpace(char32_t c);

// Return where the spaces at the end of text[begin, end) begin, and where those at `begin` end.
// REQUIRES: valid UTF-8.
using IsSpace = bool(char32_t c);
size_t StripLeft(std::string_view text, size_t begin, size_t end, IsSpace& is_space);
size_t StripRight(std::string_view text, size_t begin, IsSpace& is_space);

// Returns whether `c` is punctuation for BERT: ASCII's symbols, and P* of Unicode 8.
bool IsBertPunctuation(char32_t c);

// Returns whether clean_text removes `c`: NUL, U+FFFD, controls other than tab and line breaks,
// private use, and format characters of Unicode 8.
bool IsBertControl(char32_t c);

// Returns whether `c` is in a block of ideographs, each of which is a word.
bool IsBertChinese(char32_t c);

// Returns whether `c` is Mn of Unicode 8, which strip_accents removes.
bool IsAccent(char32_t c);

// Returns the Canonical_Combining_Class of Unicode 9.
uint8_t CombiningClass(char32_t c);

// Appends the full canonical decomposition (NFD without reordering) of Unicode 9.
void AppendDecomposition(char32_t c, std::u32string& to);

// Appends the full lower-case mapping, without context, of Unicode 17.
void AppendLowerCase(char32_t c, std::u32string& to);

// The classes in the regular expressions of byte-level BPE: \p{L}, \p{N} of Unicode 16, \s.
enum class CharacterKind : uint8_t { kOther, kLetter, kNumber, kSpace };
CharacterKind KindOf(char32_t c);

}  // namespace ddprun::trainer
