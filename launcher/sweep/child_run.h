// A run of a sweep as a process of its own, with the signals that stop the sweep passed on to it.
#pragma once

#include <functional>
#include <optional>

#include "base/result.h"

namespace ddprun::launcher {

struct ChildEnd {
  int exit_code = 0;               // 128 + n when signal n ended it
  std::optional<int> stop_signal;  // this process was told to stop meanwhile
};

// Forks, calls `run` there and waits. REQUIRES: no other thread runs.
Result<ChildEnd> RunInChild(const std::function<int()>& run);

}  // namespace ddprun::launcher
