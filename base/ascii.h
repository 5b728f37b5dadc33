// Text of which only the letters A to Z count as having two cases.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace ddprun {

// Other bytes, those of UTF-8 among them, stay as they are, whatever the locale.
inline std::string AsciiLower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

}  // namespace ddprun
