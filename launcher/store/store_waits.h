// Finds which rank waits for which key, and since when, in a store that this node hosts. It is the
// first question about a job that hangs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process/process_table.h"
#include "rendezvous/net/socket_table.h"
#include "rendezvous/store/store_server.h"

namespace ddprun::launcher {

struct LiveWorker {
  int rank = 0;  // global
  int local_rank = 0;
  pid_t pid = 0;
  uint64_t output_bytes = 0;  // that it has printed so far
};

struct StoreWait {
  std::optional<int> rank = {};  // nullopt means that no worker of this node waits
  pid_t pid = 0;                 // the worker or its descendant that waits; 0 means unknown
  rendezvous::WaitStatus status = {};
};

struct SocketHolder {
  int rank = 0;
  pid_t pid = 0;
};
using SocketHolders = std::map<uint64_t, SocketHolder>;  // by the socket's inode

// Pure. Returns all workers, then the other processes of their sessions and their descendants.
std::vector<SocketHolder> ProcessesOfWorkers(std::span<const ProcessEntry> processes,
                                             std::span<const LiveWorker> workers);

// Returns the sockets of all these processes. Takes some milliseconds (/proc).
SocketHolders SocketsOfWorkers(std::span<const LiveWorker> workers);

// Pure. Finds the client's end of each waiting connection in `sockets`, and its process.
std::vector<StoreWait> AttributeWaits(std::span<const rendezvous::ParkedWait> parked,
                                      std::span<const rendezvous::SocketEntry> sockets,
                                      const SocketHolders& holders,
                                      std::chrono::steady_clock::time_point now);

// Returns the longest wait first. Takes some milliseconds (/proc). Server's thread only.
std::vector<StoreWait> FindWaits(const rendezvous::StoreServer& server,
                                 std::span<const LiveWorker> workers);

// Returns a key in a form that is safe on a terminal, because any process may have set it.
std::string KeyText(std::string_view key);

// Returns "rank 3 (pid 812) has waited 40 s for /default_pg/0//cuda//0, which nobody has set".
std::string Describe(const StoreWait& wait);

}  // namespace ddprun::launcher
