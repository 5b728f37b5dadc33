#include "launcher/agent/worker_defaults.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "launcher/agent/worker_spec.h"
#include "launcher/nccl/nccl_dump.h"

namespace ddprun::launcher {

namespace {

constexpr std::string_view kThreads = "OMP_NUM_THREADS";

// The value "1".
constexpr std::array<std::string_view, 2> kSwitches = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    // Makes Python print the stacks of all threads if it crashes, or if ddprun ends it as hung.
    "PYTHONFAULTHANDLER"};

// The old name of the first, because PyTorch prefers the new one: a script that sets either of them
// gets its own file.
constexpr std::string_view kDumps = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE";
constexpr std::string_view kNewDumps = "TORCH_FR_DUMP_TEMP_FILE";
constexpr std::string_view kPipes = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE";

void SetUnlessSet(std::string_view name, const std::string& value, Environment& env) {
  if (!env.Get(name)) env.Set(name, value);
}

}  // namespace

void ShareCores(int cores, int workers, Environment& env) {
  SetUnlessSet(kThreads, std::to_string(std::max(1, cores / workers)), env);
}

void SetWorkerDefaults(int cores, int workers, Environment& env) {
  ShareCores(cores, workers, env);
  for (const std::string_view name : kSwitches) SetUnlessSet(name, "1", env);
}

void SetWorkerDefaults(const Attempt& attempt, Environment& env) {
  const AgentPlan& plan = attempt.plan;
  SetWorkerDefaults(attempt.usable_cores, plan.local_world_size(), env);
  // ddp-trainer has a flight recorder of its own; with --log_dir=/dev/null there is no folder.
  if (plan.target.is_trainer_config || attempt.error_folder.empty()) return;
  // Nor are pipes needed then, because ddprun does not ask for dumps in a user's files.
  if (env.Get(kDumps) || env.Get(kNewDumps)) return;
  env.Set(kDumps, NcclDumpPrefix(attempt.error_folder));
  if (plan.options.hang_timeout) SetUnlessSet(kPipes, NcclPipePrefix(plan.job_folder), env);
}

bool IsWorkerDefault(std::string_view name) {
  return name == kThreads || name == kDumps || name == kPipes ||
         std::ranges::find(kSwitches, name) != kSwitches.end();
}

}  // namespace ddprun::launcher
