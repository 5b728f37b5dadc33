// A small process that outlives a killed agent and ends all processes that the job leaves behind.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::launcher {

// Sleeps on a pipe. If the pipe closes without a dismissal, the agent is dead: the guard kills all
// processes of the job, removes the job's folder and ends. It has its own session, blocks all
// signals and holds none of the user's descriptors, so that no program waits for it and Ctrl-C does
// not reach it.
class Guard {
 public:
  // Forks the guard. REQUIRES: this process has no threads. `job_folder` may be "".
  static Result<Guard> Start(const std::string& job_id, const std::string& job_folder);

  Guard(Guard&&) noexcept = default;
  Guard& operator=(Guard&&) = delete;
  // If Dismiss() was not called, the guard does its work now.
  ~Guard() = default;

  pid_t pid() const { return pid_; }
  // Tells the guard that this process, until it is reaped, leads a session of the job. By the
  // session the guard finds processes that have cleared their environment.
  void Watch(pid_t session_leader);
  void Forget(pid_t session_leader);
  // Tells the guard a pipe that only the job's processes hold, also those that left the session.
  void WatchPipe(int fd);
  // Ends the guard, because the job has been cleaned up. Returns when the guard has ended.
  void Dismiss();

 private:
  Guard(pid_t pid, UniqueFd pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  void Send(const std::string& line);

  pid_t pid_;
  UniqueFd pipe_;
  std::string unsent_;
};

}  // namespace ddprun::launcher
