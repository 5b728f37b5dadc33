// Which rank waits for what in a store that this node hosts, and since when: what a job that hangs
// is asked first.
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
  uint64_t output_bytes = 0;  // printed so far
};

struct StoreWait {
  std::optional<int> rank = {};  // none: a process of another node, or not of a worker
  pid_t pid = 0;  // of the process that waits, the worker or a descendant; 0: not known
  rendezvous::WaitStatus status = {};
};

// A process that holds sockets, by inode.
struct SocketHolder {
  int rank = 0;
  pid_t pid = 0;
};
using SocketHolders = std::map<uint64_t, SocketHolder>;

// Pure. The processes of each worker, itself first: its session and all descendants.
std::vector<SocketHolder> ProcessesOfWorkers(std::span<const ProcessEntry> processes,
                                             std::span<const LiveWorker> workers);

// Pure. Finds the other end of each waiting connection among `sockets` and who holds it.
std::vector<StoreWait> AttributeWaits(std::span<const rendezvous::ParkedWait> parked,
                                      std::span<const rendezvous::SocketEntry> sockets,
                                      const SocketHolders& holders,
                                      std::chrono::steady_clock::time_point now);

// Reads /proc, so some milliseconds. The longest wait first. The server's thread only.
std::vector<StoreWait> FindWaits(const rendezvous::StoreServer& server,
                                 std::span<const LiveWorker> workers);

// A key as a line shows it: anybody may have set it, and a terminal obeys nothing in it.
std::string KeyText(std::string_view key);

// "rank 3 (pid 812) has waited 40 s for /default_pg/0//cuda//0, which nobody has set".
std::string Describe(const StoreWait& wait);

}  // namespace ddprun::launcher
