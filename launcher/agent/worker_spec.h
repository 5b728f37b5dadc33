// Pure: a node's place in the job and a local rank -> what that worker is started with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "launcher/agent/agent_plan.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// The same for every worker of an attempt on this node.
struct Attempt {
  const AgentPlan& plan;  // its options after CheckVirtualLocalRank
  rendezvous::Membership membership = {};
  std::string error_folder = {};  // holds <local_rank>/error.json; empty: no error files
  int node_memory_fd = -1;        // inherited memory file that the node's workers share
  int flight_recorder_fd = -1;    // likewise
  int usable_cores = 1;
};

struct WorkerSpec {
  int rank = 0;
  int local_rank = 0;
  std::vector<std::string> argv;
  Environment env;         // complete
  std::string error_file;  // empty: none
  CpuSet cpus;             // the only ones it may run on; empty: all of ours
};

// The whole environment of torchrun 2.11's workers, on top of the plan's.
WorkerSpec MakeWorkerSpec(const Attempt& attempt, int local_rank);

// Threads of a worker's linear algebra, unless the user says how many: the cores shared evenly.
// torchrun says 1 for all, which leaves cores idle, and leaves a single worker alone, which then
// ignores cgroup limits.
void ShareCores(int cores, int workers, Environment& env);

// With --virtual-local-rank each worker gets one entry of CUDA_VISIBLE_DEVICES: kUsage when that
// names fewer GPUs than there are workers.
Status CheckVirtualLocalRank(const Environment& base, int local_world_size);

// As torchrun does in every argument: ${local_rank} and $local_rank are replaced, a second $ in
// front prevents that. All other text stays, "$$" too: torchrun makes "$" of it wherever it is
// (Python's Template), which would break `sh -c 'echo $$'`.
std::string SubstituteLocalRank(std::string_view text, int local_rank);

}  // namespace ddprun::launcher
