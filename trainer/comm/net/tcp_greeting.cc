#include "trainer/comm/net/tcp_greeting.h"

#include <sys/random.h>

#include <cstring>
#include <sstream>

#include "base/check.h"
#include "base/text.h"

namespace ddprun::trainer {

namespace {

// The number is that of the format of all messages.
constexpr std::string_view kMagic{"ddprun\0\1", 8};

}  // namespace

TcpGreeting::Cookie TcpGreeting::NewCookie() {
  Cookie cookie;
  DDPRUN_CHECK(getrandom(cookie.data(), cookie.size(), 0) == std::ssize(cookie));
  return cookie;
}

std::string TcpGreeting::Pack() const {
  std::string bytes(kMagic);
  bytes.append(reinterpret_cast<const char*>(cookie.data()), cookie.size());
  for (const int rank : {from, to}) bytes.append(reinterpret_cast<const char*>(&rank), sizeof rank);
  return bytes;
}

std::optional<TcpGreeting> TcpGreeting::Unpack(std::string_view bytes) {
  TcpGreeting greeting;
  if (bytes.size() != kBytes || !bytes.starts_with(kMagic)) return std::nullopt;
  const char* next = bytes.data() + kMagic.size();
  std::memcpy(greeting.cookie.data(), next, greeting.cookie.size());
  next += greeting.cookie.size();
  for (int* const rank : {&greeting.from, &greeting.to}) {
    std::memcpy(rank, next, sizeof *rank);
    next += sizeof *rank;
  }
  return greeting;
}

bool SameCookie(const TcpGreeting::Cookie& a, const TcpGreeting::Cookie& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

std::string TcpAddress::ToText() const {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = host + " " + std::to_string(port) + " ";
  for (const unsigned char byte : cookie) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<TcpAddress> TcpAddress::Parse(const std::string& text) {
  TcpAddress address;
  std::string hex;
  std::istringstream words(text);
  words >> address.host >> address.port >> hex;
  if (!words || hex.size() != 2 * address.cookie.size()) return std::nullopt;
  for (size_t i = 0; i < address.cookie.size(); ++i) {
    const std::string digits = hex.substr(2 * i, 2);
    char* end = nullptr;
    address.cookie[i] = static_cast<unsigned char>(std::strtoul(digits.c_str(), &end, 16));
    if (*end != '\0') return std::nullopt;
  }
  return address;
}

}  // namespace ddprun::trainer
