// Reads and writes UTF-8. LibTorch-free; pure.
#pragma once

#include <cstdint>
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
  const auto byte = [&text](size_t at) { return static_cast<uint8_t>(text[at]); };
  const uint8_t lead = byte(position);
  if (lead < 0x80) return text[position++];
  const size_t at = position;
  if (lead < 0xE0) {
    position += 2;
    return (lead & 0x1FU) << 6 | (byte(at + 1) & 0x3FU);
  }
  if (lead < 0xF0) {
    position += 3;
    return (lead & 0x0FU) << 12 | (byte(at + 1) & 0x3FU) << 6 | (byte(at + 2) & 0x3FU);
  }
  position += 4;
  return (lead & 0x07U) << 18 | (byte(at + 1) & 0x3FU) << 12 | (byte(at + 2) & 0x3FU) << 6 |
         (byte(at + 3) & 0x3FU);
}

// Writes at most 4 bytes. Returns the end.
inline char* WriteCharacter(char32_t c, char* to) {
  if (c < 0x80) {
    *to++ = static_cast<char>(c);
    return to;
  }
  if (c < 0x800) {
    *to++ = static_cast<char>(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    *to++ = static_cast<char>(0xE0 | c >> 12);
    *to++ = static_cast<char>(0x80 | (c >> 6 & 0x3F));
  } else {
    *to++ = static_cast<char>(0xF0 | c >> 18);
    *to++ = static_cast<char>(0x80 | (c >> 12 & 0x3F));
    *to++ = static_cast<char>(0x80 | (c >> 6 & 0x3F));
  }
  *to++ = static_cast<char>(0x80 | (c & 0x3F));
  return to;
}

inline void AppendCharacter(char32_t c, std::string& to) {
  char bytes[4];
  to.append(bytes, WriteCharacter(c, bytes));
}

}  // namespace ddprun::trainer
