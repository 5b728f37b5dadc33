// Pure: a node's place in the job and a local rank -> what that worker is started with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "launcher/cli/target.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// The same for every worker of an attempt on this node.
struct Attempt {
  rendezvous::Membership membership;
  int local_world_size = 1;
  std::string job_id;        // DDPRUN_JOB_ID: how a job's processes are recognised
  std::string run_id;        // TORCHELASTIC_RUN_ID
  std::string error_folder;  // holds <local_rank>/error.json
  int node_memory_fd = -1;   // inherited memory file that the node's workers share
  int usable_cores = 1;
};

struct WorkerSpec {
  int rank = 0;
  int local_rank = 0;
  std::vector<std::string> argv;
  Environment env;  // complete
  std::string error_file;
};

// The whole environment of torchrun 2.11's workers, on top of `base`.
WorkerSpec MakeWorkerSpec(const Target& target,
                          const Attempt& attempt,
                          int local_rank,
                          const Environment& base);

// As torchrun does in every argument: ${local_rank} and $local_rank are replaced, a second $ in
// front prevents that. All other text stays, "$$" too: torchrun makes "$" of it wherever it is
// (Python's Template), which would break `sh -c 'echo $$'`.
std::string SubstituteLocalRank(std::string_view text, int local_rank);

}  // namespace ddprun::launcher
