#include "launcher/process/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

namespace ddprun::launcher {

namespace {

// Signals that are always read: signals for the workers, and signals of a terminal.
constexpr std::array kPassed = {SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};

// Returns whether the starter of this program wants it to live on after the signal, as nohup does
// with SIGHUP. But a shell without job control ignores SIGINT and SIGQUIT in all that it starts in
// the background: a user who sends them to this program means it.
bool IsLeftIgnored(int signal) {
  if (signal == SIGINT || signal == SIGQUIT) return false;
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

SignalMask::SignalMask(const std::vector<int>& stop_signals) {
  ::sigemptyset(&blocked_);
  // signalfd delivers a blocked signal even if it is ignored.
  for (const auto& signals : {stop_signals, std::vector<int>(kPassed.begin(), kPassed.end())}) {
    for (const int signal : signals) {
      if (!IsLeftIgnored(signal)) ::sigaddset(&blocked_, signal);
    }
  }
  // If SIGCHLD were ignored, the kernel would drop exit statuses.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, &original_child_action_);
  ::sigaddset(&blocked_, SIGCHLD);
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, &original_pipe_action_);
  // Beyond `ulimit -f`, ftruncate() and write() then return an error, which has a message.
  ::sigaction(SIGXFSZ, &action, &original_size_action_);
  ::sigprocmask(SIG_BLOCK, &blocked_, &original_);
}

SignalMask::~SignalMask() {
  constexpr timespec kNow{};
  while (::sigtimedwait(&blocked_, nullptr, &kNow) > 0) {
  }
  Restore();
}

void SignalMask::Restore() const {
  ::sigaction(SIGCHLD, &original_child_action_, nullptr);
  ::sigaction(SIGPIPE, &original_pipe_action_, nullptr);
  ::sigaction(SIGXFSZ, &original_size_action_, nullptr);
  ::sigprocmask(SIG_SETMASK, &original_, nullptr);
}

Result<std::unique_ptr<SignalReader>> SignalReader::Create(asio::io_context& io,
                                                           const SignalMask& mask,
                                                           Handler handler) {
  const int fd = ::signalfd(-1, &mask.blocked(), SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return SystemError("opening a signalfd", errno);
  return std::unique_ptr<SignalReader>(new SignalReader(io, fd, std::move(handler)));
}

SignalReader::SignalReader(asio::io_context& io, int fd, Handler handler)
    : descriptor_(io, fd), handler_(std::move(handler)) {
  WaitForMore();
}

void SignalReader::WaitForMore() {
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this](const asio::error_code& error) {
                           if (error) return;
                           ReadAll();
                           WaitForMore();
                         });
}

void SignalReader::ReadAll() {
  signalfd_siginfo info{};
  while (::read(descriptor_.native_handle(), &info, sizeof info) == sizeof info) {
    handler_(static_cast<int>(info.ssi_signo), static_cast<pid_t>(info.ssi_pid));
  }
}

StopSignalPolicy::Meaning StopSignalPolicy::Classify(int signal,
                                                     std::chrono::steady_clock::time_point now) {
  if (!first_) {
    first_ = now;
    return Meaning::kStop;
  }
  const bool by_scheduler = under_slurm_ && signal != SIGINT;
  return by_scheduler || now - *first_ < kSameRequest ? Meaning::kRepeat : Meaning::kHurry;
}

}  // namespace ddprun::launcher
