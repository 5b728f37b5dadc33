// Any bytes as text, for JSON, which has only UTF-8: each byte is the character of its number.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

std::string CharactersOfBytes(std::string_view bytes);

// Returns the bytes that CharactersOfBytes() was given.
std::string BytesOfCharacters(std::string_view characters);

}  // namespace ddprun
