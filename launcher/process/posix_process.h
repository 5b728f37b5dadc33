// ProcessHost on Linux: vfork and exec, parent-death signal, pidfds.
#pragma once

#include <list>
#include <map>
#include <memory>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "base/open_file_limit.h"
#include "launcher/process/clock.h"
#include "launcher/process/guard.h"
#include "launcher/process/job_sweep.h"
#include "launcher/process/process.h"
#include "launcher/process/signals.h"
#include "launcher/process/stray_sweep.h"

namespace ddprun::launcher {

// Raises this process's limit of open files, not its children's. Makes it a child subreaper, so
// that orphaned descendants become its children. Tells the guard about the job's processes.
// REQUIRES: created on the thread that ends last: its end sends children's parent-death signal.
class PosixProcessHost : public ProcessHost {
 public:
  // All of them must outlive the host.
  PosixProcessHost(asio::io_context& io, Clock& clock, const SignalMask& mask, Guard& guard);
  ~PosixProcessHost() override;

  Result<pid_t> Spawn(const SpawnRequest& request) override;
  void ExpectAdoption(bool on) override;
  Status Adopt(pid_t pid) override;
  void MarkPipe(int fd) override { guard_.WatchPipe(fd); }
  void Signal(pid_t pid, int signal) override;
  void SignalGroup(pid_t pid, int signal) override;
  void EndStrays(std::set<pid_t> sessions,
                 std::function<void(std::vector<pid_t> left)> done) override;
  std::vector<pid_t> EndAll() override;
  void OnExit(ExitHandler handler) override { handler_ = std::move(handler); }

  // Called on SIGCHLD: reaps children that pidfds do not report.
  void OnChildSignal();

 private:
  struct Watched;

  void Wait(Watched& watched);
  // Reaps the process if it has ended.
  void TryReap(pid_t pid);
  void ReapStrays();

  asio::io_context& io_;
  Clock& clock_;
  const SignalMask& mask_;
  Guard& guard_;
  const InheritedChildren others_;
  const OpenFileLimit files_;
  bool expects_adoption_ = false;
  ExitHandler handler_;
  std::map<pid_t, std::unique_ptr<Watched>> watched_;
  std::unique_ptr<StraySweep> sweep_;
};

}  // namespace ddprun::launcher
