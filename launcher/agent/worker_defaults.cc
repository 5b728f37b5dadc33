#include "launcher/agent/worker_defaults.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace ddprun::launcher {

namespace {

constexpr std::string_view kThreads = "OMP_NUM_THREADS";

// The value "1".
constexpr std::array<std::string_view, 2> kSwitches = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    // Makes Python print the stacks of all threads if it crashes, or if ddprun ends it as hung.
    "PYTHONFAULTHANDLER"};

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

bool IsWorkerDefault(std::string_view name) {
  return name == kThreads || std::ranges::find(kSwitches, name) != kSwitches.end();
}

}  // namespace ddprun::launcher
