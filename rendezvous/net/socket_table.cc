#include "rendezvous/net/socket_table.h"

#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/text.h"
#include "rendezvous/net/address.h"

namespace ddprun::rendezvous {

namespace {

std::string_view NextWord(std::string_view& line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const size_t end = std::min(line.find(' ', begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

template <typename Integer>
std::optional<Integer> Number(std::string_view text, int base) {
  Integer number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The kernel prints an address as words of 32 bits in the host's byte order: "0100007F".
template <size_t size>
std::optional<std::array<unsigned char, size>> Bytes(std::string_view hex) {
  std::array<unsigned char, size> bytes{};
  for (size_t i = 0; i < size; i += sizeof(uint32_t)) {
    const auto word = Number<uint32_t>(hex.substr(2 * i, 8), 16);
    if (!word) return std::nullopt;
    std::memcpy(bytes.data() + i, &*word, sizeof *word);
  }
  return bytes;
}

std::optional<std::string> Endpoint(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon != 8 && colon != 32) return std::nullopt;
  const auto port = Number<uint16_t>(text.substr(colon + 1), 16);
  if (!port) return std::nullopt;
  const std::string_view hex = text.substr(0, colon);
  if (colon == 8) {
    const auto bytes = Bytes<4>(hex);
    if (!bytes) return std::nullopt;
    return ToString(HostPort{asio::ip::address_v4(*bytes).to_string(), *port});
  }
  const auto bytes = Bytes<16>(hex);
  if (!bytes) return std::nullopt;
  return EndpointText(asio::ip::address_v6(*bytes), *port);
}

std::optional<SocketEntry> ParseLine(std::string_view line) {
  NextWord(line);  // its number
  const auto local = Endpoint(NextWord(line));
  const auto remote = Endpoint(NextWord(line));
  NextWord(line);  // its state
  const std::string_view queues = NextWord(line);
  // Another timer than the first is not that of lost data: a full receiver is asked again, too.
  const bool resending = NextWord(line).starts_with("01:");
  const auto resends = Number<uint32_t>(NextWord(line), 16);
  for (int i = 0; i < 2; ++i) NextWord(line);  // user, timeout
  const auto inode = Number<uint64_t>(NextWord(line), 10);
  if (!local || !remote || !inode) return std::nullopt;
  SocketEntry entry{*local, *remote, *inode};
  const auto unacknowledged = Number<uint64_t>(queues.substr(0, queues.find(':')), 16);
  if (resending && resends && unacknowledged) {
    entry.unacknowledged = *unacknowledged;
    entry.resends = static_cast<int>(*resends);
  }
  return entry;
}

}  // namespace

std::vector<SocketEntry> ParseSocketTable(std::string_view text) {
  std::vector<SocketEntry> entries;
  for (const std::string& line : SplitLines(text)) {
    if (auto entry = ParseLine(line)) entries.push_back(*std::move(entry));
  }
  return entries;
}

std::vector<SocketEntry> ReadSocketTable() {
  std::vector<SocketEntry> all;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    for (SocketEntry& entry : ParseSocketTable(text.str())) all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace ddprun::rendezvous
