// Options of a node for its rendezvous. Names and defaults are torchrun's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/net/address.h"
#include "rendezvous/net/gate.h"

namespace ddprun::rendezvous {

inline constexpr int kMaxNodes = 65'536;
inline constexpr int kMaxLocalWorkers = 4096;  // on one node
inline constexpr size_t kMaxHosts = 9;         // of RendezvousOptions::hosts

// Rules of a job. All nodes must give the same numbers of nodes and restarts; with c10d, the
// timeouts of the node that came first count.
struct JobRules {
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  int spares = 0;  // c10d: nodes beyond max_nodes that wait to replace a lost one
  std::chrono::milliseconds join_timeout{600'000};
  std::chrono::milliseconds last_call_timeout{30'000};

  bool elastic() const { return min_nodes < max_nodes; }
};

// Each end of a control connection takes the other for dead if it hears nothing for
// interval * max_attempts.
struct KeepAlive {
  std::chrono::milliseconds interval{5'000};
  int max_attempts = 3;

  std::chrono::milliseconds limit() const { return interval * max_attempts; }
};

struct RendezvousOptions {
  std::string run_id = "none";
  // How often a batch system has restarted the job under the same run_id. With c10d, a node with a
  // higher count begins a new job even if the coordinator still remembers how the last one ended.
  int requeues = 0;
  JobRules rules;                // static: the job has max_nodes nodes
  std::optional<int> node_rank;  // static: unset means 0; c10d: a wish, see SeatNodes()
  int local_world_size = 1;
  std::string role = "default";
  // Where the nodes meet. static: MASTER_ADDR and MASTER_PORT of node 0; on a single node, port 0
  // means a free port. c10d: host and port of the coordinator.
  HostPort endpoint = {"127.0.0.1", 0};
  // c10d: the hosts among which the nodes elect the coordinator's, so that the job outlives each of
  // them; an odd number. The same on all nodes; `endpoint` is the first. Empty: `endpoint` alone.
  std::vector<HostPort> hosts = {};
  // Keeps out who does not belong to the job; nullptr lets everyone in. Servers of one process
  // share it, so that who has passed at one of them is known at the others.
  std::shared_ptr<Gate> gate = nullptr;
  // c10d: ports that the nodes try in turn if another program has that of the endpoint. The same on
  // all nodes.
  std::vector<uint16_t> other_ports = {};
  // c10d, with spares: returns why this node cannot take part, or "". Asked before the node is
  // taken for the first time, so it must be quick. May be empty.
  std::function<std::string()> find_fault = {};
  // c10d: the address by which other nodes reach this node; empty means the one that the
  // coordinator sees.
  std::string local_addr;
  // c10d: whether this node hosts the coordinator. Unset means that it does if the endpoint is an
  // address of this machine and no program listens there yet.
  std::optional<bool> is_host;
  std::chrono::milliseconds close_timeout{30'000};
  KeepAlive keep_alive;
  // c10d with several hosts: if the leader is lost, workers are ended within this time. The next
  // leader waits so long for nodes of which it has not heard. The same on all nodes.
  std::chrono::milliseconds stop_timeout{20'000};
  // Returns how long workers may run on a node that hears the leader no longer.
  std::chrono::milliseconds stop_time() const { return keep_alive.limit() + stop_timeout; }
  // c10d: how long a node tries to reach the round's store, which listens already, before it
  // reports that it cannot.
  std::chrono::milliseconds reach_timeout{10'000};
  // static: how long a node that ends the round waits for the other nodes to read it.
  std::chrono::milliseconds report_timeout{1'000};
  // One line about the wait, such as "2 of 4 nodes joined, missing: 2, 3". May be empty.
  std::function<void(const std::string& line)> on_progress;
  // c10d: a line for each message from and to the coordinator. May be empty.
  std::function<void(const std::string& line)> on_debug = {};
  // Time between two lines about the wait, and before the first. A line that says nothing new is
  // left out.
  std::chrono::milliseconds progress_interval{3'000};
};

}  // namespace ddprun::rendezvous
