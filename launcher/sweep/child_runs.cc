#include "launcher/sweep/child_runs.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace ddprun::launcher {

// Skips ignored stop signals (nohup).
ChildRuns::ChildRuns() {
  ::sigemptyset(&waited_for_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::sigaddset(&waited_for_, signal);
  }
  ::sigaddset(&waited_for_, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &waited_for_, &before_);
}

ChildRuns::~ChildRuns() {
  for (const auto& [pid, number] : numbers_) ::kill(pid, SIGTERM);
  for (const auto& [pid, number] : numbers_) ::waitpid(pid, nullptr, 0);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

Status ChildRuns::Start(size_t number, const std::function<int()>& run) {
  const pid_t parent = ::getpid();
  // Otherwise both processes would write what is buffered.
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return SystemError("starting a run (fork)", errno);
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(128 + SIGKILL);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    const int code = run();
    std::fflush(nullptr);
    ::_exit(code);
  }
  numbers_.emplace(pid, number);
  return {};
}

ChildRuns::Ended ChildRuns::Wait() {
  while (true) {
    for (const auto& [pid, number] : numbers_) {
      int status = 0;
      if (::waitpid(pid, &status, WNOHANG) != pid) continue;
      const Ended ended{
          number,
          {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), stop_signal_}};
      numbers_.erase(pid);
      return ended;
    }
    int signal = 0;
    if (::sigwait(&waited_for_, &signal) != 0 || signal == SIGCHLD) continue;
    stop_signal_ = signal;
    // A terminal has sent the signal to the children, too; they take both for one request.
    for (const auto& [pid, number] : numbers_) ::kill(pid, signal);
  }
}

Result<ChildEnd> RunInChild(const std::function<int()>& run) {
  ChildRuns children;
  DDPRUN_TRY(children.Start(0, run));
  return children.Wait().end;
}

}  // namespace ddprun::launcher
