// One node's agent: joins the others, starts the workers, watches over them, starts them again if
// they may be, and says how it ended.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "base/log.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/agent/agent_state.h"
#include "launcher/agent/job_history.h"
#include "launcher/agent/job_output.h"
#include "launcher/agent/job_result.h"
#include "launcher/agent/restart_policy.h"
#include "launcher/agent/running_attempt.h"
#include "launcher/agent/template_host.h"
#include "launcher/output/console.h"
#include "launcher/process/guard.h"
#include "launcher/process/posix_process.h"
#include "launcher/process/signals.h"
#include "launcher/report/job_end.h"
#include "launcher/report/peer_message.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// Everything happens on the thread that calls Run. What is done when, is agent_state's table.
class Agent {
 public:
  // `mask` and `guard` must outlive the agent.
  Agent(AgentPlan plan, const SignalMask& mask, Guard& guard);
  ~Agent();

  // The whole job on this node; returns ddprun's exit code. No process of the job is left when it
  // returns, and everything has been said on standard error. Once.
  int Run();

 private:
  Status Begin();
  void On(AgentEvent event) { Do(state_.On(event)); }
  void Do(AgentAction action);
  void OnSignal(int signal, pid_t sender);
  void Suspend();
  void OnStopSignal(int signal, pid_t sender);
  void OnExit(pid_t pid, const ProcessExit& exit);
  void OnTemplateLost(const Error& error);

  // A round, in the order of what happens.
  Status Join();
  void OnJoined(Result<rendezvous::Membership> membership);
  void StartIfReady();
  void StartWorkers();
  void OnFirstFailure(const WorkerRecord& worker);
  void OnHang(const HangReport& report);
  // This node's workers cannot go on: all nodes start again, or the job ends.
  void RestartOrEnd(const PeerMessage& message);
  void OnRoundEnd(const rendezvous::RoundEnd& end);
  void OnAttemptGone();
  void OnCannotStart(const Error& error);
  void Leave();
  // The other nodes have not left either: this one goes alone, if they can do without it.
  void OnExitBarrierTime();
  void StopWorkers();
  void KillWorkers();
  void JoinAgain();
  // A line about the attempt that is over and what follows.
  void LogRestart() const;

  bool may_restart() const;
  // This node cannot go on. Tells the others, if they can be told by now.
  void FailWith(Error error);
  void OnCannotGoOn(const Error& error);
  // Ends the round everywhere, unless it has ended already.
  void EndRound(rendezvous::RoundEnd::Kind kind, const PeerMessage& message);
  // What is done when the other nodes have been told; a later telling replaces it.
  std::function<void()> Telling();
  // kSettled follows once nothing has to be waited for.
  void SettleSoon();

  // After the loop: ends what is left, then says how the job went.
  int CleanUp();
  JobCauses Causes() const;
  JobEnd DescribeEnd() const;
  // On standard error, and in the file that --report_file asks for.
  void Report(const JobEnd& end);
  void TellParent() const;
  // Empty when the workers have not hung.
  std::string HangText() const;
  // Its lines carry the node's rank, once that is known.
  Log MakeLog(std::optional<int> node_rank);
  // "node 1 (host)".
  std::string Name() const;
  int node_rank() const;
  GroupSurroundings Surroundings() { return {io_, processes_, guard_, console_, log_}; }

  AgentPlan plan_;
  const SignalMask& mask_;
  Guard& guard_;
  asio::io_context io_;
  Console console_;
  Log log_;
  PosixProcessHost processes_;
  StopPatience patience_;
  CrashLoop crash_loop_;
  JobHistory history_;
  asio::steady_timer timer_;  // of the phase: the pause before it joins, the limit of leaving
  std::unique_ptr<SignalReader> signals_;
  std::unique_ptr<rendezvous::Rendezvous> rendezvous_;
  std::optional<JobOutput> output_;
  std::unique_ptr<TemplateHost> template_;

  AgentState state_;
  int telling_ = 0;      // counts, so that an answer can be told from an older one's
  bool is_told_ = true;  // nobody is being told anything

  // Of the round.
  std::optional<rendezvous::Membership> membership_;
  std::unique_ptr<RunningAttempt> attempt_;
  std::optional<rendezvous::RoundEnd> round_end_;
  bool template_renewed_ = false;  // the one that was there to fork was killed before it had

  // Of the whole job: why it ends here.
  std::optional<int> stop_signal_;
  std::optional<Error> error_;
  std::optional<int> refusal_;  // exit code of a template that has said itself what is wrong
  std::vector<pid_t> unkillable_;
};

}  // namespace ddprun::launcher
