// What a stranger at a port said, for messages.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace ddprun::rendezvous {

// The first printable characters in quotes, such as "SSH-2.0-OpenSSH_9.6"; empty when `bytes` begin
// with others. Never a control character, so that it can go to a terminal.
inline std::string HeardText(std::string_view bytes) {
  constexpr size_t kShownBytes = 60;
  size_t length = 0;
  while (length < std::min(bytes.size(), kShownBytes) && bytes[length] >= ' ' &&
         bytes[length] <= '~') {
    ++length;
  }
  return length == 0 ? "" : "\"" + std::string(bytes.substr(0, length)) + "\"";
}

}  // namespace ddprun::rendezvous
