#include "base/byte_characters.h"

namespace ddprun {

std::string CharactersOfBytes(std::string_view bytes) {
  std::string characters;
  for (const char byte : bytes) {
    const auto number = static_cast<unsigned char>(byte);
    if (number >= 0x80) characters += static_cast<char>(0xC0 | number >> 6);
    characters += static_cast<char>(number < 0x80 ? number : 0x80 | (number & 0x3F));
  }
  return characters;
}

std::string BytesOfCharacters(std::string_view characters) {
  std::string bytes;
  for (size_t i = 0; i < characters.size(); ++i) {
    const auto first = static_cast<unsigned char>(characters[i]);
    const bool two = first >= 0x80 && i + 1 < characters.size();
    bytes += static_cast<char>(two ? (first & 3) << 6 | (characters[++i] & 0x3F) : first);
  }
  return bytes;
}

}  // namespace ddprun
