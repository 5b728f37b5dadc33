#include "trainer/text/utf8.h"

#include <cstdint>
#include <cstring>

namespace ddprun::trainer {

namespace {

// Moves `at` behind the character that begins there, or behind the longest part of one. Returns
// whether the character is valid.
bool Skip(std::string_view text, size_t& at) {
  UChar32 character;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(text.data());
  U8_NEXT(bytes, at, text.size(), character);
  return character >= 0;
}

// Returns the place of the first byte that is not UTF-8; the size of `text` if there is none.
size_t ValidPrefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t word = 0;
    if (at + sizeof(word) <= text.size()) {
      std::memcpy(&word, text.data() + at, sizeof(word));
      if ((word & 0x8080808080808080U) == 0) {
        at += sizeof(word);
        continue;
      }
    }
    const size_t begin = at;
    if (!Skip(text, at)) return begin;
  }
  return at;
}

}  // namespace

std::string_view ValidUtf8(std::string_view bytes, std::string& storage) {
  size_t valid = ValidPrefix(bytes);
  if (valid == bytes.size()) return bytes;
  storage.clear();
  storage.reserve(bytes.size() + 16);
  for (;;) {
    storage.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) return storage;
    AppendCharacter(kReplacement, storage);
    size_t invalid = 0;
    Skip(bytes, invalid);
    bytes.remove_prefix(invalid);
    valid = ValidPrefix(bytes);
  }
}

bool IsUtf16(std::string_view text) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return true;
  const auto zeros = [&](size_t first) { return text[first] == 0 && text[first + 2] == 0; };
  return text.size() >= 4 && zeros(0) != zeros(1);
}

}  // namespace ddprun::trainer
