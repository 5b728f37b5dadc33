// Addresses as users write them, and what they mean on this machine. Nothing here asks a name
// server except ResolveByNameServer, because a silent one costs seconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <asio/ip/address.hpp>

#include "base/result.h"

namespace ddprun::rendezvous {

// A host name or literal, without brackets. Port 0: none was given, or any free one.
struct HostPort {
  std::string host;
  uint16_t port = 0;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// Reads "host", "host:port", "1.2.3.4:port", "[::1]:port", "[::1]" and a bare "::1".
// `default_port` stands in when the text has none. kUsage with page "endpoint" otherwise.
Result<HostPort> ParseHostPort(std::string_view text, uint16_t default_port = 0);

// "host:port"; an IPv6 literal gets its brackets.
std::string ToString(const HostPort& endpoint);

// The same for one end of a connection. "::ffff:1.2.3.4" is written as the IPv4 address it means.
std::string EndpointText(const asio::ip::address& address, uint16_t port);

// Addresses of literals, of localhost and of names in /etc/hosts (this machine's own name usually
// is there); empty for anything else. Never blocks. `hosts_file` is for tests.
std::vector<asio::ip::address> ResolveLocally(std::string_view host,
                                              const std::string& hosts_file = "/etc/hosts");

// Asks the system's resolver; may block for many seconds. kRendezvous when the name is unknown.
Result<std::vector<asio::ip::address>> ResolveByNameServer(const std::string& host);

// This machine's name (gethostname).
std::string HostName();

// "localhost", a name below it, or a loopback literal: the user means this machine only.
bool NamesLoopback(std::string_view host);

// Whether one of this machine's interfaces has the address (loopback 127/8 included).
bool IsOwnAddress(const asio::ip::address& address);

}  // namespace ddprun::rendezvous
