// Finds connections of workers whose other end does not answer any longer: the link between the two
// nodes is dead, although the nodes themselves may live.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launcher/store/store_waits.h"
#include "rendezvous/net/socket_table.h"

namespace ddprun::launcher {

struct DeadLink {
  int rank = 0;        // the worker, or the worker whose descendant sends
  std::string local;   // "10.0.0.3:40112"
  std::string remote;  // the end that does not answer
  uint64_t bytes = 0;  // not acknowledged
  int resends = 0;
};

// Pure. Returns the connections whose data were sent again so often that they are dead for at least
// three seconds, by rank.
std::vector<DeadLink> SelectDeadLinks(std::span<const rendezvous::SocketEntry> sockets,
                                      const SocketHolders& holders);

// Takes some milliseconds (/proc).
std::vector<DeadLink> FindDeadLinks(std::span<const LiveWorker> workers);

// Returns "10.0.0.2:40112 does not acknowledge what rank 2 sends from 10.0.0.3:51812 (1234 bytes,
// sent again 7 times)".
std::string Describe(const DeadLink& link);

}  // namespace ddprun::launcher
