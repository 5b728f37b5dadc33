// ProcessHost on Linux: vfork and exec, parent-death signal, pidfds; and how many files this
// process may have open: as many as the system lets it, its children as many as the user has set.
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

namespace ddprun::launcher {

// Raises the limit of open files, not for children. Makes this process a child subreaper:
// descendants whose parents are gone become our children, so that none gets away. Tells the guard,
// which is a child that is never ended here, of all that belongs to the job. REQUIRES: created on
// the thread that stays longest, since the parent-death signal of children is bound to it.
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

  // To be called on SIGCHLD: reaps what pidfds do not tell of.
  void OnChildSignal();

 private:
  struct Watched;

  void Wait(Watched& watched);
  // Takes the exit status when there is one.
  void TryReap(pid_t pid);
  void ReapStrays();

  asio::io_context& io_;
  Clock& clock_;
  const SignalMask& mask_;
  Guard& guard_;
  const Bystanders others_;
  const OpenFileLimit files_;
  bool expects_adoption_ = false;
  ExitHandler handler_;
  std::map<pid_t, std::unique_ptr<Watched>> watched_;
  std::unique_ptr<StraySweep> sweep_;
};

}  // namespace ddprun::launcher
