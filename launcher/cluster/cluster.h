// SEAM: a batch system, or another program that starts an agent on each of several nodes and says
// in the environment which of them this agent is.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "launcher/cli/options.h"
#include "rendezvous/net/address.h"

namespace ddprun::launcher {

// What the environment says. The fields become options that the user has not given.
struct ClusterPlace {
  std::string started_by;  // "SLURM step 17.0", for messages
  int agents = 1;          // of the job
  int agent = 0;           // this one
  // Where the agents meet, and the ports that they try in turn if that one is taken.
  rendezvous::HostPort endpoint = {};
  std::vector<uint16_t> other_ports = {};
  std::string run_id = {};
  // Set if several agents share this host: each then has one worker.
  std::optional<HostShare> share = {};
  std::string one_agent_a_host = {};  // the words that start one agent a host, for messages
  bool has_gpus = false;              // this agent's own, for its number of workers
  std::vector<std::string> notes = {};
};

struct Cluster {
  std::string_view name;
  // Returns nullopt if this system has not started this process. Error: kUsage if its variables
  // make no sense.
  Result<std::optional<ClusterPlace>> (*find_place)(const Environment& env);
};

extern const Cluster kSlurm;

// Returns all systems. The first that has started this process counts.
std::span<const Cluster* const> Clusters();

// Completes `options` from the environment of the system that has started this process, and adds
// lines for the user. Changes nothing that the user has given (Options::given); nothing at all if
// the user asks for a single node, or gives both the number of nodes and where they meet. Error:
// kUsage if what the user has given does not fit the agents that were started.
Status CompleteOptions(const Environment& env, Options& options);

}  // namespace ddprun::launcher
