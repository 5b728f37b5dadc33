// The kernel's list of TCP connections, which tells whose the other end of a local one is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::rendezvous {

// Addresses as ToString(HostPort) writes them; an IPv4 address in IPv6 clothes ("::ffff:1.2.3.4",
// as torch's clients have it) is written as the IPv4 address that it is.
struct SocketEntry {
  std::string local;
  std::string remote;
  uint64_t inode = 0;  // of "socket:[inode]" in /proc/PID/fd; 0: nobody has it open any more
};

// Pure. The text of /proc/net/tcp or tcp6; lines of another form are left out.
std::vector<SocketEntry> ParseSocketTable(std::string_view text);

// Both families, as far as this process's network namespace shows them.
std::vector<SocketEntry> ReadSocketTable();

}  // namespace ddprun::rendezvous
