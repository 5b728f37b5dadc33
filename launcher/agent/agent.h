// One node's agent: joins the other nodes, starts the workers, watches them, restarts them if
// restarts are left, and reports how the job ended.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>

#include "base/log.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/agent/agent_state.h"
#include "launcher/agent/job_history.h"
#include "launcher/agent/job_output.h"
#include "launcher/agent/job_result.h"
#include "launcher/agent/round_ending.h"
#include "launcher/agent/running_attempt.h"
#include "launcher/agent/template_host.h"
#include "launcher/output/stream_writer.h"
#include "launcher/process/clock.h"
#include "launcher/process/process.h"
#include "launcher/process/signals.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// The objects that the agent uses. Everything here must outlive the agent.
struct AgentSurroundings {
  asio::io_context& io;
  Clock& clock;
  ProcessHost& processes;
  Console& console;
  // Called once. The rendezvous writes lines about the wait to the log.
  std::function<Result<std::shared_ptr<rendezvous::Rendezvous>>(const AgentPlan&, const Log&)>
      open_rendezvous;
  const AgentTable& agent_table = kAgentTable;
  const GroupTable& group_table = kGroupTable;
  WorkerReaders readers = {};
  OpenLossBoard open_losses = {};
};

// Use it on the loop thread only. kAgentTable (agent_state.h) says what follows each event.
class Agent {
 public:
  Agent(AgentPlan plan, const AgentSurroundings& surroundings);
  ~Agent();

  // Begins the whole job on this node. Stops the loop when the job is over.
  void Start();
  // Handles a signal that ddprun got: stops the job, passes the signal on to the workers, or
  // follows the terminal's job control. `sender` is a pid; 0 means unknown.
  void OnSignal(int signal, pid_t sender);
  // Ends all processes of the job, writes the report to the console, and returns ddprun's exit
  // code. Call it once, after the loop.
  int Finish();

 private:
  Status Begin();
  void On(AgentEvent event) { Do(state_.On(event)); }
  void Do(AgentAction action);
  void OnStopSignal(int signal, pid_t sender);
  void OnExit(pid_t pid, const ProcessExit& exit);
  void OnTemplateLost(const Error& error);
  void StartTemplate();

  // The steps of a round, in their order.
  void Join();
  void OnJoined(Result<rendezvous::Membership> membership);
  void StartIfReady();
  void StartWorkers();
  void OnFirstFailure(const WorkerRecord& worker);
  void OnHang(const HangReport& report);
  // Ends the round with `end`, because this node's workers cannot go on: restarts all nodes if
  // restarts are left, otherwise ends the job.
  void RestartOrEnd(rendezvous::RoundEnd end);
  void OnRoundEnd(const rendezvous::RoundEnd& end);
  void OnAttemptGone();
  void OnCannotStart(const Error& error);
  void Leave();
  // The exit barrier has timed out. Leaves alone if no other node needs what this node hosts.
  void OnExitBarrierTime();
  void StopWorkers();
  void LimitStop();
  void KillWorkers();
  void JoinAgain();

  bool may_restart() const;
  // Returns whether the round is over and its workers are being stopped.
  bool settling() const;
  // Ends this node with `error`. Tells the other nodes, after joining if it has not joined yet.
  void FailWith(Error error);
  void OnCannotContinue(const Error& error);
  // Posts kSettled if the workers are gone and the other nodes know of the end.
  void PostIfSettled();

  // Completes what the reports need from the attempt, if there is one.
  void CloseAttempt();
  JobCauses Causes() const;
  // Returns "node 1 (host)".
  std::string Name() const;
  GroupSurroundings Surroundings() const;

  const AgentPlan plan_;
  const AgentSurroundings surroundings_;
  Log log_;
  StopSignalPolicy stop_policy_;
  CrashLoop crash_loop_;
  JobHistory history_;
  Clock::Alarm alarm_;  // the pause before JoinAgain() joins, or the limit of Leave() or a stop
  std::shared_ptr<rendezvous::Rendezvous> rendezvous_;
  std::optional<JobOutput> output_;
  std::unique_ptr<TemplateHost> template_;
  bool has_joined_ = false;  // the node rank is known

  AgentState state_;
  JobCauses causes_;  // without those of the round: see Causes()

  // State of the round.
  std::optional<rendezvous::Membership> membership_;
  RoundEnding ending_;
  std::unique_ptr<RunningAttempt> attempt_;
  bool template_renewed_ = false;  // the template was killed before it forked, and started again
};

}  // namespace ddprun::launcher
