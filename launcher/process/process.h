// SEAM: starting, signalling and waiting for processes.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/cpus.h"
#include "base/result.h"
#include "launcher/process/process_exit.h"

namespace ddprun::launcher {

struct SpawnRequest {
  std::string name;     // for messages
  std::string program;  // path
  std::vector<std::string> argv;
  std::vector<std::string> env;         // NAME=value
  int stdout_fd = -1;                   // becomes its standard output; -1 means inherited
  int stderr_fd = -1;                   // becomes its standard error; -1 means inherited
  std::vector<int> inherited_fds = {};  // stay open; all others above 2 are closed
  CpuSet cpus = {};                     // on which it may run; empty means all of ddprun's
};

// Use it on the loop thread only.
class ProcessHost {
 public:
  using ExitHandler = std::function<void(pid_t, const ProcessExit&)>;

  virtual ~ProcessHost() = default;

  // Starts a process that leads a new session and dies with this process. The error says why the
  // program could not be executed (kNotFound, kNotExecutable).
  virtual Result<pid_t> Spawn(const SpawnRequest& request) = 0;
  // While `on`, does not reap unknown children, because Adopt() will take them over.
  virtual void ExpectAdoption(bool on) = 0;
  // Takes over a process that is, or will soon be, a child of this process.
  virtual Status Adopt(pid_t pid) = 0;
  // Marks a pipe: processes that hold it belong to the job, even without their parents.
  virtual void MarkPipe(int fd) = 0;
  // Signals the process alone. Does nothing if it has been reaped.
  virtual void Signal(pid_t pid, int signal) = 0;
  // Signals the process group that `pid` leads. Does nothing if the leader has been reaped.
  virtual void SignalGroup(pid_t pid, int signal) = 0;
  // Ends the processes that spawned or adopted ones have left behind: all other children of this
  // process. Processes in `sessions` get SIGTERM first. Calls `done` from the loop with the
  // processes that do not end; do not call it again before.
  virtual void EndStrays(std::set<pid_t> sessions,
                         std::function<void(std::vector<pid_t> left)> done) = 0;
  // Ends and reaps all descendants, known or not; blocks. Returns the processes that did not end,
  // because they are stuck in the kernel.
  virtual std::vector<pid_t> EndAll() = 0;
  // Sets what is called from the loop for every spawned or adopted process, in the order of ends.
  virtual void OnExit(ExitHandler handler) = 0;
};

}  // namespace ddprun::launcher
