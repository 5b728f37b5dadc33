// Makes what a stranger at a port has sent fit for messages.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace ddprun::rendezvous {

// Returns the first printable characters in quotes, such as "SSH-2.0-OpenSSH_9.6"; "" if `bytes`
// begin with another character. The text has no control characters, so that terminals can show it.
inline std::string QuoteReceived(std::string_view bytes) {
  constexpr size_t kShownBytes = 60;
  size_t length = 0;
  while (length < std::min(bytes.size(), kShownBytes) && bytes[length] >= ' ' &&
         bytes[length] <= '~') {
    ++length;
  }
  return length == 0 ? "" : "\"" + std::string(bytes.substr(0, length)) + "\"";
}

}  // namespace ddprun::rendezvous
