// Reads the kernel's list of TCP connections, by which the process at the other end of a local
// connection is found.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::rendezvous {

// One connection. Addresses are written by EndpointText(): an IPv4 address in IPv6 form
// ("::ffff:1.2.3.4", as torch's clients use it) is written as the IPv4 address.
struct SocketEntry {
  std::string local;
  std::string remote;
  uint64_t inode = 0;  // of "socket:[inode]" in /proc/PID/fd; 0 means that no process has it open
  uint64_t unacknowledged = 0;  // bytes that the other end has not acknowledged
  int resends = 0;              // how often they were sent again, in vain
};

// Parses the text of /proc/net/tcp or tcp6. Leaves out lines of another form. Pure.
std::vector<SocketEntry> ParseSocketTable(std::string_view text);

// Reads the connections of both families in this process's network namespace.
std::vector<SocketEntry> ReadSocketTable();

}  // namespace ddprun::rendezvous
