// One node's agent: joins the others, starts the workers, watches over them, and says how it ended.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>

#include "base/log.h"
#include "launcher/agent/job_output.h"
#include "launcher/agent/template_client.h"
#include "launcher/agent/worker_group.h"
#include "launcher/cli/options.h"
#include "launcher/cli/target.h"
#include "launcher/output/console.h"
#include "launcher/output/worker_stream.h"
#include "launcher/process/guard.h"
#include "launcher/process/posix_process.h"
#include "launcher/process/signals.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

struct AgentPlan {
  Options options;
  Target target;
  Environment env;  // of this process
  int local_world_size = 1;
  std::string job_id;
  std::string run_id;
  std::string job_folder;
  std::string host;    // this machine's name, for messages
  bool color = false;  // standard error is a terminal that shows colours
};

// Everything happens on the thread that calls Run.
class Agent {
 public:
  // `mask` and `guard` must outlive the agent.
  Agent(AgentPlan plan, const SignalMask& mask, Guard& guard);
  ~Agent();

  // The whole job on this node; returns ddprun's exit code. No process of the job is left when it
  // returns, and everything has been said on standard error. Once.
  int Run();

 private:
  // What is still to come decides what a signal means.
  enum class Phase { kJoining, kRunning, kLeaving, kReporting };

  Status Begin();
  Status StartTemplate();
  void OnSignal(int signal, pid_t sender);
  void OnExit(pid_t pid, const ProcessExit& exit);
  void OnTemplateExit(const ProcessExit& exit);
  void OnJoined(Result<rendezvous::Membership> membership);
  void OnRoundEnd(const rendezvous::RoundEnd& failure);
  void OnLeft(const Status& left);
  // Once the nodes are together and the template is ready.
  void StartWorkersIfReady();
  Status StartWorkers();
  void OnFirstFailure(const WorkerRecord& worker);
  void OnGroupDone();
  void TellPeers(int exit_code, const std::string& text);

  // Leaves the loop with this exit code, once the other nodes have been told what they must know.
  void Finish(int exit_code);
  void FailWith(Error error);
  // The same, unless the template has already said on standard error what is wrong.
  void FailWithTemplate(Error error);
  int ExitCodeAfterGroup() const;
  // After the loop: ends what is left, then says how the job went.
  void CleanUp();
  std::string Report() const;
  bool several_nodes() const { return plan_.options.several_nodes(); }
  int node_rank() const { return plan_.options.node_rank.value_or(0); }

  AgentPlan plan_;
  const SignalMask& mask_;
  Guard& guard_;
  asio::io_context io_;
  Console console_;
  Log log_;
  PosixProcessHost processes_;
  StopPatience patience_;
  std::unique_ptr<SignalReader> signals_;
  std::unique_ptr<rendezvous::Rendezvous> rendezvous_;
  std::optional<JobOutput> output_;
  std::shared_ptr<WorkerStream> template_stderr_;
  std::unique_ptr<TemplateClient> template_;
  Environment template_env_;
  UniqueFd node_memory_;
  std::unique_ptr<WorkerGroup> group_;

  Phase phase_ = Phase::kJoining;
  std::optional<rendezvous::Membership> membership_;
  bool template_ready_ = false;
  std::optional<int> template_exit_code_;
  bool telling_peers_ = false;
  std::optional<int> stop_signal_;
  std::optional<rendezvous::RoundEnd> peer_failure_;
  std::optional<Error> error_;
  std::optional<int> exit_code_;
  std::vector<pid_t> unkillable_;
};

}  // namespace ddprun::launcher
