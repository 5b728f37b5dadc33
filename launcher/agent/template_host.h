// Keeps a worker template running for all attempts of a job, and reports if it is lost.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "launcher/agent/agent_plan.h"
#include "launcher/agent/group_handlers.h"
#include "launcher/agent/template_client.h"
#include "launcher/output/worker_stream.h"

namespace ddprun::launcher {

// Use it on the loop thread only. Destroying it closes the template's socket; the template exits.
class TemplateHost {
 public:
  struct Handlers {
    std::function<void()> on_ready;
    // Called if the template ends while it does not fork; a fork in progress fails by itself. The
    // template's own messages are already on standard error.
    std::function<void(Error)> on_lost;
  };

  // `surroundings` and `plan` must outlive the host.
  TemplateHost(const GroupSurroundings& surroundings, const AgentPlan& plan, Handlers handlers);

  // Starts a template unless one runs. One template serves all attempts unless it is killed.
  Status EnsureRunning();
  // Returns whether the template can fork now.
  bool ready() const { return ready_; }
  // REQUIRES: ready().
  TemplateClient& client() { return *client_; }
  // The template's environment, from which its workers' environments are changed.
  const Environment& env() const { return env_; }

  // Handles the end of the template. Returns false if `pid` is another process.
  bool OnExit(pid_t pid, const ProcessExit& exit);
  // Exit code, other than 0, with which a template has ended; it has told the user why.
  std::optional<int> refusal() const { return refusal_; }

  // Closes the template's socket, so that the template exits.
  void Close();
  // Reads the rest of the template's standard error. Call it when the process is gone.
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
