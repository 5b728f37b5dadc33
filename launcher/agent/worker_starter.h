// SEAM: how the processes of a node's workers come into being: a program is started for each, or
// the worker template forks them.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "launcher/agent/template_host.h"
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

// Returns what starts the workers of an attempt: forks of `worker_template`, or, if that is
// nullptr, `target`. Every worker inherits `shared_fds`. The arguments must outlive the result.
std::unique_ptr<WorkerStarter> MakeStarter(ProcessHost& processes,
                                           const Target& target,
                                           TemplateHost* worker_template,
                                           std::vector<int> shared_fds);

}  // namespace ddprun::launcher
