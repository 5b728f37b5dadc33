// Signals as events of the loop. They stay blocked, so that no handler runs and no code has to be
// async-signal-safe. Children get the mask with which this process was started.
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "base/result.h"

namespace ddprun::launcher {

// Blocks `stop_signals`, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH and SIGCHLD, except ignored
// ones (nohup) other than SIGINT and SIGQUIT, and ignores SIGPIPE, so that write() returns EPIPE.
// The destructor drops pending signals and restores everything. Created before other threads.
class SignalMask {
 public:
  explicit SignalMask(const std::vector<int>& stop_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT});
  ~SignalMask();
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

  const sigset_t& blocked() const { return blocked_; }
  // Restores mask and dispositions. Async-signal-safe, for a child between fork and exec.
  void Restore() const;

 private:
  sigset_t blocked_{};
  sigset_t original_{};
  struct sigaction original_child_action_ {};
  struct sigaction original_pipe_action_ {};
  struct sigaction original_size_action_ {};
};

class SignalReader {
 public:
  using Handler = std::function<void(int signal, pid_t sender)>;

  // Calls `handler` from the loop. `mask` must outlive the reader.
  static Result<std::unique_ptr<SignalReader>> Create(asio::io_context& io,
                                                      const SignalMask& mask,
                                                      Handler handler);

 private:
  SignalReader(asio::io_context& io, int fd, Handler handler);
  void WaitForMore();
  void ReadAll();

  asio::posix::stream_descriptor descriptor_;
  Handler handler_;
};

// Decides what a further stop signal means. One request may come as several signals: SLURM sends
// SIGTERM twice, and a wrapper script may pass on Ctrl-C. So only a signal kSameRequest or more
// after the first asks to hurry; under SLURM only SIGINT does, because SLURM sends several signals.
class StopSignalPolicy {
 public:
  explicit StopSignalPolicy(bool under_slurm = false) : under_slurm_(under_slurm) {}

  enum class Meaning { kStop, kRepeat, kHurry };
  static constexpr std::chrono::milliseconds kSameRequest{500};

  Meaning Classify(int signal, std::chrono::steady_clock::time_point now);

 private:
  bool under_slurm_;
  std::optional<std::chrono::steady_clock::time_point> first_;
};

}  // namespace ddprun::launcher
