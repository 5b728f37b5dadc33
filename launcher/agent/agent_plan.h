// What one node's agent is to run, decided once before any process is started; and running it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/cpus.h"
#include "base/env.h"
#include "launcher/cli/options.h"
#include "launcher/cli/target.h"
#include "launcher/process/guard.h"
#include "launcher/process/signals.h"

namespace ddprun::launcher {

struct AgentPlan {
  Options options;
  Target target;
  Environment env;           // of this process
  std::vector<CpuSet> cpus;  // of each local rank; empty: not bound
  std::string job_id;
  std::chrono::steady_clock::time_point job_began = {};
  std::string job_folder;
  std::string host;    // this machine's name, for messages
  bool color = false;  // standard error is a terminal that shows colours

  int local_world_size() const { return options.rdzv.local_world_size; }
  const std::string& run_id() const { return options.rdzv.run_id; }
  // What workers get between being told to stop and SIGKILL: as torchrun 30 s, but longer where
  // they end their step and save.
  std::chrono::milliseconds grace() const {
    const std::chrono::seconds usual(target.is_trainer_config ? 300 : 30);
    return options.shutdown_timeout.value_or(usual);
  }
};

// The whole job on this node; ddprun's exit code. No process of the job is left when it returns,
// and everything has been said on standard error. Call it on the main thread.
Result<int> RunAgent(AgentPlan plan, const SignalMask& mask, Guard& guard);

}  // namespace ddprun::launcher
