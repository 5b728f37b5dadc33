// Reads and writes UTF-8. LibTorch-free; pure.
#pragma once

#include <unicode/utf8.h>

#include <string>
#include <string_view>

namespace ddprun::trainer {

constexpr char32_t kReplacement = 0xFFFD;

// Returns `bytes` if all of it is UTF-8. Otherwise returns a copy in `storage` with U+FFFD for each
// maximal part of an invalid character, like Python's errors="replace".
std::string_view ValidUtf8(std::string_view bytes, std::string& storage);

// Returns whether a text begins like UTF-16, which Windows programs write: with its byte order
// mark, or with zero in every other byte.
bool IsUtf16(std::string_view text);

// Returns the character at `position`, and moves `position` behind it. REQUIRES: valid UTF-8, a
// character begins there.
inline char32_t NextCharacter(std::string_view text, size_t& position) {
  char32_t character;
  U8_NEXT_UNSAFE(text.data(), position, character);
  return character;
}

// Writes at most 4 bytes. Returns the end.
inline char* WriteCharacter(char32_t c, char* to) {
  size_t size = 0;
  U8_APPEND_UNSAFE(to, size, c);
  return to + size;
}

inline void AppendCharacter(char32_t c, std::string& to) {
  char bytes[4];
  to.append(bytes, WriteCharacter(c, bytes));
}

}  // namespace ddprun::trainer
