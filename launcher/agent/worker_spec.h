// Makes a worker's command and environment from the node's place in the job. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "launcher/agent/agent_plan.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// The settings that all workers of an attempt on this node share.
struct Attempt {
  const AgentPlan& plan;  // its options have passed CheckVirtualLocalRank()
  rendezvous::Membership membership = {};
  std::string error_folder = {};  // holds <local_rank>/error.json; "" means no error files
  int node_memory_fd = -1;        // inherited memory file that the node's workers share
  int flight_recorder_fd = -1;    // inherited memory file of the workers' flight recorder
  int usable_cores = 1;
};

struct WorkerSpec {
  int rank = 0;
  int local_rank = 0;
  std::vector<std::string> argv;
  Environment env;                 // complete
  std::string error_file = {};     // "" means none
  std::vector<int> inherited_fds;  // memory that the node's workers share, the flight recorder
  CpuSet cpus = {};                // on which it may run; empty means all of ddprun's
};

// Returns a worker's spec. Its environment is the plan's plus all variables of torchrun 2.11.
WorkerSpec MakeWorkerSpec(const Attempt& attempt, int local_rank);

}  // namespace ddprun::launcher
