#include "trainer/text/utf8.h"

#include <cstring>

namespace ddprun::trainer {

namespace {

struct Part {
  size_t length;
  bool valid;
};

// Returns the first character of `text`, or the part of it that begins one. The second byte's range
// excludes overlong forms, surrogates and values above U+10FFFF.
Part FirstPart(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, false};
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < low || byte > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
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
    const Part part = FirstPart(text.substr(at));
    if (!part.valid) return at;
    at += part.length;
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
    bytes.remove_prefix(FirstPart(bytes).length);
    valid = ValidPrefix(bytes);
  }
}

bool IsUtf16(std::string_view text) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return true;
  const auto zeros = [&](size_t first) { return text[first] == 0 && text[first + 2] == 0; };
  return text.size() >= 4 && zeros(0) != zeros(1);
}

}  // namespace ddprun::trainer
