// Reads addresses as users write them, and resolves them on this machine. Only ResolveByNameServer
// asks a name server, because a name server that does not answer costs seconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <asio/ip/address.hpp>

#include "base/result.h"

namespace ddprun::rendezvous {

// A host name or literal, without brackets. Port 0 means that none is given, or any free one.
struct HostPort {
  std::string host;
  uint16_t port = 0;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// Reads "host", "host:port", "1.2.3.4:port", "[::1]:port", "[::1]" and a bare "::1". If the text
// has no port, the result has `default_port`. Error: kUsage (page "endpoint") for any other text.
Result<HostPort> ParseHostPort(std::string_view text, uint16_t default_port = 0);

// Returns "host:port"; an IPv6 literal gets its brackets.
std::string ToString(const HostPort& endpoint);

// Returns "address:port" for one end of a connection. "::ffff:1.2.3.4" becomes the IPv4 address.
std::string EndpointText(const asio::ip::address& address, uint16_t port);

// Returns the addresses of a literal, of localhost or of a name in /etc/hosts, which usually has
// this machine's own name; empty for any other name. Never blocks. `hosts_file` is for tests.
std::vector<asio::ip::address> ResolveLocally(std::string_view host,
                                              const std::string& hosts_file = "/etc/hosts");

// Asks the system's resolver; may block for many seconds. Error: kRendezvous if it finds nothing.
Result<std::vector<asio::ip::address>> ResolveByNameServer(const std::string& host);

// Returns this machine's name (gethostname).
std::string HostName();

// Returns whether `host` is "localhost", a name that ends in ".localhost", or a loopback literal.
bool NamesLoopback(std::string_view host);

// An address of this machine, and the name of its interface.
struct OwnAddress {
  asio::ip::address address;
  std::string interface;
  bool up = false;
};
std::vector<OwnAddress> ReadOwnAddresses();

// Returns `wished` if the interface has it, else the interface's first address, IPv4 first;
// unspecified if it has none that other machines reach.
asio::ip::address AddressOf(const std::string& interface, const std::string& wished);

// Returns whether other machines reach the address only with the name of an interface (IPv6).
inline bool IsLinkLocal(const asio::ip::address& address) {
  return address.is_v6() && address.to_v6().is_link_local();
}

// Returns whether one of this machine's interfaces has the address (true for all of 127/8).
bool IsOwnAddress(const asio::ip::address& address);

}  // namespace ddprun::rendezvous
