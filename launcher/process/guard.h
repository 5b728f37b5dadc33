// A tiny process that outlives a killed agent and ends everything that the job has left behind.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::launcher {

// Sleeps on a pipe. When the pipe closes without a dismissal, the agent is dead, however it died:
// the guard kills every process of the job, removes the job's folder and ends. It has its own
// session, blocks all signals and holds none of the user's descriptors, so that nothing waits for
// it and Ctrl-C does not reach it.
class Guard {
 public:
  // Forks: REQUIRES a process without threads. `job_folder` may be empty.
  static Result<Guard> Start(const std::string& job_id, const std::string& job_folder);

  Guard(Guard&&) noexcept = default;
  Guard& operator=(Guard&&) = delete;
  // Without a Dismiss the guard does its work now.
  ~Guard() = default;

  pid_t pid() const { return pid_; }
  // The process leads a session of its own that belongs to the job, until it is reaped. It finds
  // processes that have wiped their environment.
  void Watch(pid_t session_leader);
  void Forget(pid_t session_leader);
  // A pipe that only processes of the job hold. It finds those that have left the session too.
  void WatchPipe(int fd);
  // Everything has been cleaned up: the guard ends, and has ended when this returns.
  void Dismiss();

 private:
  Guard(pid_t pid, UniqueFd pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  void Tell(const std::string& line);

  pid_t pid_;
  UniqueFd pipe_;
  std::string unsent_;
};

}  // namespace ddprun::launcher
