// A quick check whether this machine can take part in a job. It takes milliseconds, where
// `ddprun doctor` may take seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/env.h"

namespace ddprun::launcher {

struct HealthFacts {
  std::optional<int64_t> free_memory = {};  // nullopt means unknown
  std::optional<int> gpus = {};             // visible ones; nullopt means that no driver answers
  std::string folder = {};                  // for temporary files
  bool can_write = true;                    // a file in that folder
};
HealthFacts ReadHealth(const Environment& env);

// Returns the first fault, as in "2 GPUs answer, and there were 8 at the start"; "" means none.
// Pure.
std::string FindFault(const HealthFacts& at_start, const HealthFacts& now);

// Reads the facts now, and returns a function that compares the machine with them.
std::function<std::string()> WatchHealth(const Environment& env);

}  // namespace ddprun::launcher
