#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "launcher/sweep/sweep_run.h"

namespace ddprun::launcher {

namespace {

// Blocks the signals that stop a sweep, so that Wait() gets them. Skips ignored ones (nohup).
class StopSignals {
 public:
  StopSignals() {
    ::sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
      struct sigaction action {};
      ::sigaction(signal, nullptr, &action);
      if (action.sa_handler != SIG_IGN) ::sigaddset(&set_, signal);
    }
    ::sigaddset(&set_, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~StopSignals() { Restore(); }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void Restore() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  int Wait() const {
    int signal = 0;
    return ::sigwait(&set_, &signal) == 0 ? signal : SIGCHLD;
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

}  // namespace

Result<ChildEnd> RunInChild(const std::function<int()>& run) {
  const StopSignals signals;
  const pid_t parent = ::getpid();
  // Otherwise both processes would write what is buffered.
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return SystemError("starting a run (fork)", errno);
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(128 + SIGKILL);
    signals.Restore();
    const int code = run();
    std::fflush(nullptr);
    ::_exit(code);
  }
  ChildEnd end;
  while (true) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) {
      end.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      return end;
    }
    const int signal = signals.Wait();
    if (signal == SIGCHLD) continue;
    end.stop_signal = signal;
    // A terminal has sent the signal to the child, too; the child takes both for one request.
    ::kill(pid, signal);
  }
}

}  // namespace ddprun::launcher
