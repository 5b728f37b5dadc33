// Signals as events of the loop. They stay blocked, so no handler ever runs and nothing has to be
// async-signal-safe; children get the mask back that this process was started with.
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

// Blocks the signals that ask to stop, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT and SIGCHLD, except those
// that are ignored (nohup, background jobs of a script): they stay ignored. SIGCHLD gets its
// default disposition, SIGPIPE is ignored: a write says EPIPE. The destructor drops what has come
// too late and puts everything back.
// Create it before threads are started.
class SignalMask {
 public:
  explicit SignalMask(const std::vector<int>& stop_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT});
  ~SignalMask();
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

  const sigset_t& blocked() const { return blocked_; }
  // What the destructor does; async-signal-safe, for a child between fork and exec.
  void Restore() const;

 private:
  sigset_t blocked_{};
  sigset_t original_{};
  struct sigaction original_child_action_ {};
  struct sigaction original_pipe_action_ {};
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

// What a signal that asks to stop means after those before it. SLURM sends SIGTERM twice within
// 10 ms, and a terminal's Ctrl-C reaches a wrapper script and us: only a signal at least
// kSameRequest after the first says that someone has lost patience. Under SLURM that has to be a
// SIGINT: its warning signal is followed by SIGTERM, and that by another one.
class StopPatience {
 public:
  explicit StopPatience(bool under_slurm = false) : under_slurm_(under_slurm) {}

  enum class Meaning { kStop, kRepeat, kHurry };
  static constexpr std::chrono::milliseconds kSameRequest{500};

  Meaning Note(int signal, std::chrono::steady_clock::time_point now);

 private:
  bool under_slurm_;
  std::optional<std::chrono::steady_clock::time_point> first_;
};

}  // namespace ddprun::launcher
