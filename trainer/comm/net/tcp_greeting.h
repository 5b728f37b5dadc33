// The first bytes of a TCP connection between two ranks. Internal to its folder.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::trainer {

struct TcpGreeting {
  using Cookie = std::array<unsigned char, 16>;
  static constexpr size_t kBytes = 32;

  int from = 0;
  int to = 0;
  Cookie cookie{};  // the receiver's

  static Cookie NewCookie();
  std::string Pack() const;
  // Returns nullopt if these are not the bytes of a greeting.
  static std::optional<TcpGreeting> Unpack(std::string_view bytes);
};

// Returns whether two cookies are equal, in a time that does not depend on where they differ.
bool SameCookie(const TcpGreeting::Cookie& a, const TcpGreeting::Cookie& b);

// The address of a rank's port, as text.
struct TcpAddress {
  std::string host;  // a literal
  uint16_t port = 0;
  TcpGreeting::Cookie cookie{};

  std::string ToText() const;
  static std::optional<TcpAddress> Parse(const std::string& text);
};

}  // namespace ddprun::trainer
