// SEAM: a batch system, or another program that starts an agent on each of several nodes and says
// in the environment which of them this agent is.
#pragma once

#include <cstdint>
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

// `agents` of a job whose environment does not say how many there are: --nnodes says it.
inline constexpr int kAsManyAsGiven = 0;

// --hostfile gives an agent its place here: "AGENT AGENTS HOST RUN_ID", where the agents meet on
// HOST.
inline constexpr const char* kHostPlaceVariable = "DDPRUN_HOST_PLACE";

// Returns whether --hostfile has started this agent. A worker that starts ddprun is in a job, and
// starts a job of its own.
bool IsAgentOfHostfile(const Environment& env);

// The facts that the environment states. The fields become options that the user has not given.
struct ClusterPlace {
  std::string started_by;  // "SLURM step 17.0", for messages
  int agents = 1;          // of the job
  int agent = 0;           // this one
  // Where the agents meet, and the ports that they try in turn if that one is taken. An empty host
  // is not known; `no_host_hint` then says what the user can do.
  rendezvous::HostPort endpoint = {};
  std::vector<uint16_t> other_ports = {};
  std::string run_id = {};
  // Set if several agents share this host: each then has one worker.
  std::optional<HostShare> share = {};
  std::string one_agent_a_host = {};  // the words that start one agent a host, for messages
  std::string no_host_hint = {};
  // For messages: what the user can do if --nnodes does not fit `agents`.
  std::string nnodes_hint =
      "Leave --nnodes out, or start as many agents. --nnodes=1 trains on each node alone.";
  int gpus = 0;                // this agent's own, for its number of workers; 0 if it is not known
  std::string more_gpus = {};  // the words before the number of GPUs to ask for, for messages
  std::vector<std::string> notes = {};
};

struct Cluster {
  std::string_view name;
  // Returns nullopt if this system has not started this process. Error: kUsage if its variables
  // make no sense.
  Result<std::optional<ClusterPlace>> (*find_place)(const Environment& env);
  // Its agents are told their place one by one, so they take it also if the user says where they
  // meet, and then meet with the elastic back end, as at the system's own endpoint.
  bool gives_each_its_place = false;
};

extern const Cluster kHostfile;
extern const Cluster kSlurm;
extern const Cluster kMpirun;
extern const Cluster kKubernetes;

// Returns a port that follows from a name, so that all agents that know the name know the port:
// 20000 to 31999, below the ports that Linux gives to outgoing connections. PortsAfter returns
// eight more.
uint16_t PortOf(std::string_view name);
std::vector<uint16_t> PortsAfter(std::string_view name);

// Returns all systems. The first that has started this process counts.
std::span<const Cluster* const> Clusters();

// Completes `options` from the environment of the system that has started this process, and adds
// lines for the user. Changes nothing that the user has given (Options::given); nothing at all if
// the user asks for a single node, or gives both the number of nodes and where they meet (see
// Cluster::gives_each_its_place). Error: kUsage if what the user has given does not fit the agents
// that were started.
Status CompleteOptions(const Environment& env, Options& options);

}  // namespace ddprun::launcher
