// Runs of a sweep as child processes.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>

#include "base/result.h"

namespace ddprun::launcher {

struct ChildEnd {
  int exit_code = 0;               // 128 + n if signal n ended it
  std::optional<int> stop_signal;  // the last stop signal that this process got meanwhile
};

// While it exists, SIGINT, SIGTERM, SIGHUP and SIGQUIT stop the children and not this process.
// REQUIRES: no other thread runs.
class ChildRuns {
 public:
  ChildRuns();
  // Stops the children that still run, and waits for them.
  ~ChildRuns();
  ChildRuns(const ChildRuns&) = delete;
  ChildRuns& operator=(const ChildRuns&) = delete;

  // Calls `run` in a child process. Its result is the exit code.
  Status Start(size_t number, const std::function<int()>& run);
  size_t running() const { return numbers_.size(); }
  std::optional<int> stop_signal() const { return stop_signal_; }

  struct Ended {
    size_t number = 0;  // of Start()
    ChildEnd end = {};
  };
  // Waits for the end of a child. REQUIRES: running() > 0.
  Ended Wait();

 private:
  sigset_t waited_for_{};
  sigset_t before_{};
  std::map<pid_t, size_t> numbers_;
  std::optional<int> stop_signal_;
};

// Calls `run` in a child process and waits for it.
Result<ChildEnd> RunInChild(const std::function<int()>& run);

}  // namespace ddprun::launcher
