// SEAM: starting, signalling and waiting for processes.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/cpus.h"
#include "base/result.h"

namespace ddprun::launcher {

struct Exited {
  int code = 0;
  friend bool operator==(const Exited&, const Exited&) = default;
};
struct Signaled {
  int signal = 0;
  bool dumped_core = false;
  friend bool operator==(const Signaled&, const Signaled&) = default;
};
using ProcessExit = std::variant<Exited, Signaled>;

// As a shell has it: the code, or 128 + signal.
int ExitCode(const ProcessExit& exit);
// "SIGKILL"; "signal 42" for those without a name.
std::string SignalName(int signal);

struct SpawnRequest {
  std::string name;     // for messages
  std::string program;  // path
  std::vector<std::string> argv;
  std::vector<std::string> env;  // NAME=value
  int stdout_fd = -1;            // becomes its standard output; -1: inherited
  int stderr_fd = -1;            // becomes its standard error; -1: inherited
  std::vector<int> inherited_fds =
      {};            // kept open under their numbers; all others above 2 are closed
  CpuSet cpus = {};  // the only ones it may run on; empty: all of ours
};

// Loop thread only.
class ProcessHost {
 public:
  using ExitHandler = std::function<void(pid_t, const ProcessExit&)>;

  virtual ~ProcessHost() = default;

  // A new session leader that dies with this process. The error says why it could not be executed
  // (kNotFound, kNotExecutable).
  virtual Result<pid_t> Spawn(const SpawnRequest& request) = 0;
  // While it is on, children that are not known yet keep their exit status: they are to be adopted.
  virtual void ExpectAdoption(bool on) = 0;
  // Takes over a process that is, or is about to be, our child.
  virtual Status Adopt(pid_t pid) = 0;
  // What holds this pipe belongs to the job, even if it gets away from its parents.
  virtual void MarkPipe(int fd) = 0;
  // To the process alone; nothing happens when it has been reaped.
  virtual void Signal(pid_t pid, int signal) = 0;
  // To the process group that it leads; nothing happens when the leader has been reaped.
  virtual void SignalGroup(pid_t pid, int signal) = 0;
  // Ends what spawned or adopted processes have left behind: every other child of this process.
  // Those in `sessions` get SIGTERM first. Calls `done` from the loop with the processes that do
  // not end. One at a time.
  virtual void EndStrays(std::set<pid_t> sessions,
                         std::function<void(std::vector<pid_t> left)> done) = 0;
  // Ends and reaps every descendant that is left, known or not; blocks. Returns those that did not
  // end: processes stuck in the kernel.
  virtual std::vector<pid_t> EndAll() = 0;
  // Called from the loop for every spawned or adopted process, in the order in which they ended.
  virtual void OnExit(ExitHandler handler) = 0;
};

}  // namespace ddprun::launcher
