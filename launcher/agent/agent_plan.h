// What one node's agent is to run: decided once, before any process is started.
#pragma once

#include <string>
#include <vector>

#include "base/cpu_list.h"
#include "base/env.h"
#include "launcher/cli/options.h"
#include "launcher/cli/target.h"

namespace ddprun::launcher {

struct AgentPlan {
  Options options;
  Target target;
  Environment env;  // of this process
  int local_world_size = 1;
  std::vector<CpuSet> cpus;  // of each local rank; empty: not bound
  std::string job_id;
  std::string run_id;
  std::string job_folder;
  std::string host;    // this machine's name, for messages
  bool color = false;  // standard error is a terminal that shows colours
};

}  // namespace ddprun::launcher
