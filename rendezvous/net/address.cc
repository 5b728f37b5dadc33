#include "rendezvous/net/address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include "base/env.h"
#include "base/text.h"

namespace ddprun::rendezvous {

namespace {

Error BadEndpoint(std::string_view text, std::string_view found) {
  return {.code = Code::kUsage,
          .title = "BAD ENDPOINT",
          .what = "\"" + std::string(text) + "\" is no endpoint: " + std::string(found) + ".",
          .hint = "Write host:port, such as node0:29500, 10.0.0.1:29500 or [fd00::1]:29500.",
          .page = "endpoint"};
}

// Returns nullopt if the text is no literal. Keeps a zone ("fe80::1%eth0").
std::optional<asio::ip::address> ParseLiteral(std::string_view host) {
  asio::error_code error;
  const asio::ip::address address = asio::ip::make_address(std::string(host), error);
  if (error) return std::nullopt;
  return address;
}

bool IsLocalhostName(std::string_view lower) {
  return lower == "localhost" || lower.ends_with(".localhost");
}

void AddUnique(std::vector<asio::ip::address>& addresses, const asio::ip::address& address) {
  if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(address);
}

std::vector<asio::ip::address> LookUpHostsFile(std::string_view lower_host,
                                               const std::string& hosts_file) {
  std::vector<asio::ip::address> found;
  std::ifstream file(hosts_file);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string literal;
    words >> literal;
    const std::optional<asio::ip::address> address = ParseLiteral(literal);
    if (!address) continue;
    for (std::string name; words >> name;) {
      if (ToAsciiLower(name) == lower_host) AddUnique(found, *address);
    }
  }
  return found;
}

asio::ip::address FromSockaddr(const sockaddr* from) {
  if (from->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(from);
    return asio::ip::address_v4(ntohl(v4->sin_addr.s_addr));
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(from);
  asio::ip::address_v6::bytes_type bytes;
  std::copy_n(v6->sin6_addr.s6_addr, bytes.size(), bytes.begin());
  return asio::ip::address_v6(bytes, v6->sin6_scope_id);
}

bool IsInternet(const sockaddr* address) {
  return address != nullptr && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

}  // namespace

Result<HostPort> ParseHostPort(std::string_view text, uint16_t default_port) {
  std::string_view host = text;
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == text.npos) return BadEndpoint(text, "the bracket is not closed");
    host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') return BadEndpoint(text, "':' expected after ']'");
    if (!rest.empty()) port = rest.substr(1);
    const auto literal = ParseLiteral(host);
    if (!literal || !literal->is_v6()) {
      return BadEndpoint(text, "\"" + std::string(host) + "\" is no IPv6 address");
    }
  } else if (const size_t colon = text.find(':'); colon != text.npos) {
    // A text with a second colon is a bare IPv6 literal, which cannot have a port.
    if (text.find(':', colon + 1) == text.npos) {
      host = text.substr(0, colon);
      port = text.substr(colon + 1);
    } else if (!ParseLiteral(text)) {
      return BadEndpoint(text, "it has several ':' and is no IPv6 address");
    }
  }
  if (host.empty()) return BadEndpoint(text, "the host is missing");
  if (host.find_first_of(" \t\r\n/@[]") != host.npos) {
    return BadEndpoint(text, "\"" + std::string(host) + "\" is no host name");
  }
  HostPort endpoint{std::string(host), default_port};
  if (port) {
    const std::optional<int64_t> number = ParseInt(*port);
    if (!number || *number < 0 || *number > 65535) {
      return BadEndpoint(text,
                         "the port is \"" + std::string(*port) + "\", not a number of 0 to 65535");
    }
    endpoint.port = static_cast<uint16_t>(*number);
  }
  return endpoint;
}

std::string ToString(const HostPort& endpoint) {
  const bool v6 = endpoint.host.find(':') != endpoint.host.npos;
  const std::string host = v6 ? "[" + endpoint.host + "]" : endpoint.host;
  return host + ":" + std::to_string(endpoint.port);
}

std::string EndpointText(const asio::ip::address& address, uint16_t port) {
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  const auto plain =
      mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()) : address;
  return ToString(HostPort{plain.to_string(), port});
}

std::vector<asio::ip::address> ResolveLocally(std::string_view host,
                                              const std::string& hosts_file) {
  if (const auto literal = ParseLiteral(host)) return {*literal};
  const std::string lower = ToAsciiLower(host);
  std::vector<asio::ip::address> found = LookUpHostsFile(lower, hosts_file);
  if (IsLocalhostName(lower)) {
    AddUnique(found, asio::ip::address_v4::loopback());
    AddUnique(found, asio::ip::address_v6::loopback());
  }
  return found;
}

Result<std::vector<asio::ip::address>> ResolveByNameServer(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failure = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  std::vector<asio::ip::address> found;
  if (failure == 0) {
    for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
      if (IsInternet(entry->ai_addr)) AddUnique(found, FromSockaddr(entry->ai_addr));
    }
  }
  if (!found.empty()) return found;
  return Error{
      .code = Code::kRendezvous,
      .title = "UNKNOWN HOST",
      .where = host,
      .what = "The name " + host + " has no address: " +
              (failure == 0 ? "none of IPv4 or IPv6" : gai_strerror(failure)) + ".",
      .hint = "Check the spelling, or give the node's IP address, which needs no name server.",
      .page = "unknown-host"};
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "localhost";
  return name;
}

bool NamesLoopback(std::string_view host) {
  if (const auto literal = ParseLiteral(host)) return literal->is_loopback();
  return IsLocalhostName(ToAsciiLower(host));
}

std::vector<OwnAddress> ReadOwnAddresses() {
  std::vector<OwnAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (!IsInternet(entry->ifa_addr)) continue;
    found.push_back(
        {FromSockaddr(entry->ifa_addr), entry->ifa_name, (entry->ifa_flags & IFF_UP) != 0});
  }
  return found;
}

asio::ip::address AddressOf(const std::string& interface, const std::string& wished) {
  asio::ip::address first;
  for (const OwnAddress& own : ReadOwnAddresses()) {
    if (own.interface != interface) continue;
    if (own.address.to_string() == wished) return own.address;
    if (IsLinkLocal(own.address)) continue;
    if (first.is_unspecified() || (own.address.is_v4() && first.is_v6())) first = own.address;
  }
  return first;
}

bool IsOwnAddress(const asio::ip::address& address) {
  if (address.is_loopback()) return true;
  const std::vector<OwnAddress> own = ReadOwnAddresses();
  return std::ranges::find(own, address, &OwnAddress::address) != own.end();
}

}  // namespace ddprun::rendezvous
