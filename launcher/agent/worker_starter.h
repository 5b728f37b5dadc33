// SEAM: how the processes of a node's workers come into being: a program is started for each, or
// the worker template forks them (template_host.h).
#pragma once

#include <functional>
#include <span>

#include "launcher/agent/worker_spec.h"
#include "launcher/cli/target.h"
#include "launcher/output/group_output.h"
#include "launcher/process/process.h"

namespace ddprun::launcher {

// Use it on the loop thread only.
class WorkerStarter {
 public:
  struct Handlers {
    // Returns the descriptors of a worker, which stay open until it has started or Start() returns.
    // Called once for each spec, in order.
    std::function<Result<const WorkerFds*>(size_t index)> open;
    std::function<void(size_t index, pid_t pid)> on_started;
    // Called once, at last. An error means that not all processes have started.
    std::function<void(const Status&)> on_done;
  };

  virtual ~WorkerStarter() = default;
  // Starts a process for each of `specs`. REQUIRES: !is_busy(); a template is ready.
  virtual void Start(std::span<const WorkerSpec> specs, Handlers handlers) = 0;
  // Returns whether a Start() has not called `on_done` yet.
  virtual bool is_busy() const { return false; }
  // Sends SIGKILL to a template that forks. `on_done` then follows.
  virtual void Kill() {}
};

// Starts the target for each worker. Its arguments must outlive it.
class ProgramStarter final : public WorkerStarter {
 public:
  ProgramStarter(ProcessHost& processes, const Target& target)
      : processes_(processes), target_(target) {}

  void Start(std::span<const WorkerSpec> specs, Handlers handlers) override;

 private:
  ProcessHost& processes_;
  const Target& target_;
};

}  // namespace ddprun::launcher
