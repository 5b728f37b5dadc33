// Characters as Hugging Face's tokenizers 0.22 see them. Their parts were built with different
// versions of Unicode, so each question names its own: a character that came later is to them
// unassigned. ICU of Unicode 14 or newer answers; what it may lack is in unicode.cc.
// tests/trainer/text compares every character. LibTorch-free; pure.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::trainer {

// White_Space: the same 25 characters in every version.
bool IsWhiteSpace(char32_t c);

// Punctuation to BERT: ASCII's symbols, and P* of Unicode 8.
bool IsBertPunctuation(char32_t c);

// What clean_text takes out: NUL, U+FFFD, controls other than tab and line breaks, private use,
// and format characters of Unicode 8.
bool IsBertControl(char32_t c);

// The blocks of ideographs that are words of their own.
bool IsBertChinese(char32_t c);

// Mn of Unicode 8, which strip_accents takes out.
bool IsAccent(char32_t c);

// Canonical_Combining_Class of Unicode 9.
uint8_t CombiningClass(char32_t c);

// Appends the full canonical decomposition (NFD without reordering) of Unicode 9.
void AppendDecomposition(char32_t c, std::u32string& to);

// Appends the full lower-case mapping, without context, of Unicode 17.
void AppendLowerCase(char32_t c, std::u32string& to);

// What the regular expressions of byte-level BPE ask: \p{L}, \p{N} of Unicode 16, \s.
enum class CharacterKind : uint8_t { kOther, kLetter, kNumber, kSpace };
CharacterKind KindOf(char32_t c);

}  // namespace ddprun::trainer
