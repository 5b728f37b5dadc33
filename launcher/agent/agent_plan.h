// The plan of one node's agent, made once before any process starts, and the call that runs it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/cpus.h"
#include "base/env.h"
#include "launcher/agent/stop_grace.h"
#include "launcher/cli/options.h"
#include "launcher/cli/target.h"
#include "launcher/process/guard.h"
#include "launcher/process/signals.h"

namespace ddprun::launcher {

struct AgentPlan {
  Options options;
  Target target;
  Environment env;           // of this process
  std::vector<CpuSet> cpus;  // of each local rank; empty means that workers are not bound
  std::string job_id;
  std::chrono::steady_clock::time_point job_began = {};
  std::string job_folder;
  std::string host;    // this machine's name, for messages
  bool color = false;  // standard error is a terminal that shows colours

  int local_world_size() const { return options.rdzv.local_world_size; }
  const std::string& run_id() const { return options.rdzv.run_id; }
  // Time that workers get from the stop signal to SIGKILL.
  StopGrace grace() const {
    if (options.shutdown_timeout) return *options.shutdown_timeout;
    return GraceOf(env, target.is_trainer_config);
  }
};

// Runs the whole job on this node and returns ddprun's exit code. When it returns, no process of
// the job is left and standard error has the whole report. Call it on the main thread.
Result<int> RunAgent(AgentPlan plan, const SignalMask& mask, Guard& guard);

}  // namespace ddprun::launcher
