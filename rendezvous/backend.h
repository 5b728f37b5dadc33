// What a node brings to a rendezvous, and what a back end is. Names and defaults are torchrun's.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <asio/io_context.hpp>

#include "base/result.h"
#include "rendezvous/net/address.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::rendezvous {

inline constexpr int kMaxNodes = 65'536;
inline constexpr int kMaxLocalWorkers = 4096;  // of one node

// The same on all nodes of a job; of c10d's, the first node's count.
struct JobRules {
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  std::chrono::milliseconds join_timeout{600'000};
  std::chrono::milliseconds last_call_timeout{30'000};

  bool elastic() const { return min_nodes < max_nodes; }
};

// The other end is taken for dead when nothing came for interval * attempts.
struct KeepAlive {
  std::chrono::milliseconds interval{5'000};
  int max_attempts = 3;
};

struct RendezvousOptions {
  std::string run_id = "none";
  // How often a batch system has started the job anew under the same run_id: a later start does not
  // meet the end of an earlier one.
  int requeues = 0;
  JobRules rules;                // static: as many nodes as max_nodes
  std::optional<int> node_rank;  // static: needed by all but node 0; c10d: a wish, see SeatNodes
  int local_world_size = 1;
  std::string role = "default";
  // Where the nodes meet. static: node 0's MASTER_ADDR and MASTER_PORT, port 0 (a free one) on a
  // single node only; c10d: of the coordinator.
  HostPort endpoint = {"127.0.0.1", 0};
  std::string local_addr;  // c10d: how the others reach this node; empty: the address they see
  // c10d: whether this node hosts the coordinator; unset: if the endpoint is an address of this
  // machine and nobody listens there yet.
  std::optional<bool> is_host;
  std::chrono::milliseconds close_timeout{30'000};
  KeepAlive keep_alive;
  // To reach the round's store, which listens already, before the join is given up.
  std::chrono::milliseconds reach_timeout{10'000};
  // static: how long a node that ends the round waits until the others have been told.
  std::chrono::milliseconds report_timeout{1'000};
  // One line about the wait, such as "2 of 4 nodes joined, missing: 2, 3". May be empty.
  std::function<void(const std::string& line)> on_progress;
  // c10d: a line for each message from and to the coordinator. May be empty.
  std::function<void(const std::string& line)> on_debug = {};
  // First line after this, then at most one per interval and only when it says something new.
  std::chrono::milliseconds progress_interval{3'000};
};

struct Backend {
  std::string_view name;  // of --rdzv_backend
  // Whether the command line says how many nodes there are and which rank each has; otherwise that
  // is settled when they meet.
  bool fixed;
  uint16_t port;  // where nodes meet that are not told another one
  std::chrono::milliseconds join_timeout;
  // Each handle keeps the node alive; it stops when the last one is gone. kUsage (pages "nnodes",
  // "node-rank", "endpoint") when the options contradict each other.
  Result<std::shared_ptr<Rendezvous>> (*make)(asio::io_context& io, RendezvousOptions options);
};

// Of nodes that know their number and their rank, wire-compatible with torchrun's static backend
// (torch 2.11): ddprun and torchrun nodes can be in one job, whoever is node 0. Node 0 hosts the
// store on the endpoint's own address (on all addresses when the endpoint is not one of this
// machine's, or when its name means loopback only here). One node needs no exchange: Join only
// opens the port. Every round after the first gets a fresh store on a free port. kRestart needs
// ddprun on all nodes: next to torchrun nodes it becomes kJobFailed, of which the node that asked
// hears by WatchRound. A node that is gone fails the job.
extern const Backend kStaticBackend;

}  // namespace ddprun::rendezvous
