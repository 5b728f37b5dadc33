// Keeps a worker template running for all attempts of a job, forks workers from it, and reports if
// it is lost.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "launcher/agent/agent_plan.h"
#include "launcher/agent/group_handlers.h"
#include "launcher/agent/template_client.h"
#include "launcher/agent/worker_starter.h"
#include "launcher/output/worker_stream.h"

namespace ddprun::launcher {

// Use it on the loop thread only. Destroying it closes the template's socket; the template exits.
class TemplateHost final : public WorkerStarter {
 public:
  struct Events {
    std::function<void()> on_ready;
    // Called if the template ends while it does not fork; a fork in progress fails by itself. The
    // template's own messages are already on standard error.
    std::function<void(Error)> on_lost;
  };

  // `surroundings` and `plan` must outlive the host.
  TemplateHost(const GroupSurroundings& surroundings, const AgentPlan& plan, Events events);

  // Starts a template unless one runs. One template serves all attempts unless it is killed.
  Status EnsureRunning();
  // Returns whether the template can fork now. Start() requires it.
  bool ready() const { return ready_; }

  void Start(std::span<const WorkerSpec> specs, Handlers handlers) override;
  bool is_busy() const override { return is_busy_; }
  void Kill() override;

  // Handles the end of the template. Returns false if `pid` is another process.
  bool OnExit(pid_t pid, const ProcessExit& exit);
  // Exit code, other than 0, with which a template has ended; it has told the user why.
  std::optional<int> refusal() const { return refusal_; }

  // Closes the template's socket, so that the template exits.
  void Close();
  // Reads the rest of the template's standard error. Call it when the process is gone.
  void FinishOutput();

 private:
  void SetBusy(bool busy);

  GroupSurroundings surroundings_;
  const AgentPlan& plan_;
  const Events events_;
  Environment env_;  // of the template, from which its workers' environments are changed
  std::shared_ptr<WorkerStream> stderr_;
  std::unique_ptr<TemplateClient> client_;
  bool running_ = false;
  bool ready_ = false;
  bool is_busy_ = false;
  std::optional<int> refusal_;
};

}  // namespace ddprun::launcher
