// Keeps a worker template at hand for all attempts of a job, and says so when it cannot.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "launcher/agent/agent_plan.h"
#include "launcher/agent/template_client.h"
#include "launcher/agent/worker_group.h"

namespace ddprun::launcher {

// Loop thread only. Destroying it closes the template's socket, on which it exits.
class TemplateHost {
 public:
  struct Handlers {
    std::function<void()> on_ready;
    // It ended, without being asked to fork just then: a fork under way fails by itself. What it
    // said is on standard error already.
    std::function<void(Error)> on_lost;
  };

  // `surroundings` and `plan` must outlive the host.
  TemplateHost(const GroupSurroundings& surroundings, const AgentPlan& plan, Handlers handlers);

  // Starts one unless one runs: it serves all attempts, unless it was killed.
  Status EnsureRunning();
  // Whether it can fork now.
  bool ready() const { return ready_; }
  // REQUIRES: ready().
  TemplateClient& client() { return *client_; }
  // What its workers' environment begins with.
  const Environment& env() const { return env_; }

  // Takes the end of a process if it is the template.
  bool OnExit(pid_t pid, const ProcessExit& exit);
  // The exit code of a template that refused its work; it has told the user why.
  std::optional<int> refusal() const { return refusal_; }

  // It exits by itself on that.
  void Close();
  // Reads the rest of its standard error; for when its process is gone.
  void FinishOutput();

 private:
  GroupSurroundings surroundings_;
  const AgentPlan& plan_;
  Handlers handlers_;
  Environment env_;
  std::shared_ptr<WorkerStream> stderr_;
  std::unique_ptr<TemplateClient> client_;
  bool running_ = false;
  bool ready_ = false;
  std::optional<int> refusal_;
};

}  // namespace ddprun::launcher
