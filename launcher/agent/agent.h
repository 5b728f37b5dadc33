// One node's agent: joins the others, starts the workers, watches over them, starts them again if
// they may be, and says how it ended.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>

#include "base/log.h"
#include "base/result.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/agent/agent_state.h"
#include "launcher/agent/job_history.h"
#include "launcher/agent/job_output.h"
#include "launcher/agent/job_result.h"
#include "launcher/agent/running_attempt.h"
#include "launcher/agent/template_host.h"
#include "launcher/output/stream_writer.h"
#include "launcher/process/clock.h"
#include "launcher/process/process.h"
#include "launcher/process/signals.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// What the agent uses; everything outlives it.
struct AgentSurroundings {
  asio::io_context& io;
  Clock& clock;
  ProcessHost& processes;
  Console& console;
  // Called once; the log gets a line about a wait.
  std::function<Result<std::shared_ptr<rendezvous::Rendezvous>>(const AgentPlan&, const Log&)>
      open_rendezvous;
  const AgentTable& agent_table = kAgentTable;
  const GroupTable& group_table = kGroupTable;
  CpuTimesReader cpu_times = CpuTimes;
};

// Loop thread only. What is done when, is agent_state's table.
class Agent {
 public:
  Agent(AgentPlan plan, const AgentSurroundings& surroundings);
  ~Agent();

  // The whole job on this node begins. The loop is stopped once it is over.
  void Start();
  // One that ddprun got: to stop, for the workers, or of a terminal's job control.
  void OnSignal(int signal, pid_t sender);
  // After the loop: no process of the job is left when it returns, and everything has been said on
  // the console. ddprun's exit code. Once.
  int Finish();

 private:
  Status Begin();
  void On(AgentEvent event) { Do(state_.On(event)); }
  void Do(AgentAction action);
  void OnStopSignal(int signal, pid_t sender);
  void OnExit(pid_t pid, const ProcessExit& exit);
  void OnTemplateLost(const Error& error);

  // A round, in the order of what happens.
  void Join();
  void OnJoined(Result<rendezvous::Membership> membership);
  void StartIfReady();
  void StartWorkers();
  void OnFirstFailure(const WorkerRecord& worker);
  void OnHang(const HangReport& report);
  // This node's workers cannot go on: all nodes start again, or the job ends.
  void RestartOrEnd(rendezvous::RoundEnd end);
  void OnRoundEnd(const rendezvous::RoundEnd& end);
  void OnAttemptGone();
  void OnCannotStart(const Error& error);
  void Leave();
  // The other nodes have not left either: this one goes alone, if they can do without it.
  void OnExitBarrierTime();
  void StopWorkers();
  void KillWorkers();
  void JoinAgain();

  bool may_restart() const;
  // The round is over, what belongs to it is being put away.
  bool settling() const;
  // This node cannot go on. Tells the others, if they can be told by now.
  void FailWith(Error error);
  void OnCannotGoOn(const Error& error);
  // Ends the round everywhere, unless it has ended already.
  void EndRound(rendezvous::RoundEnd end);
  // What is done when the other nodes have been told; a later telling replaces it.
  std::function<void()> Telling();
  // kSettled follows once nothing has to be waited for.
  void SettleSoon();

  JobCauses Causes() const;
  // Empty when the workers have not hung.
  std::string HangText() const;
  // Log lines carry the node's rank, once that is known.
  static std::string LogName(std::optional<int> node_rank);
  // "node 1 (host)".
  std::string Name() const;
  int node_rank() const;
  GroupSurroundings Surroundings() const;

  const AgentPlan plan_;
  const AgentSurroundings surroundings_;
  Log log_;
  StopPatience patience_;
  CrashLoop crash_loop_;
  JobHistory history_;
  Clock::Alarm alarm_;  // of the phase: the pause before it joins, the limit of leaving
  std::shared_ptr<rendezvous::Rendezvous> rendezvous_;
  std::optional<JobOutput> output_;
  std::unique_ptr<TemplateHost> template_;

  AgentState state_;
  int telling_ = 0;      // counts, so that an answer can be told from an older one's
  bool is_told_ = true;  // nobody is being told anything

  // Of the round.
  std::optional<rendezvous::Membership> membership_;
  std::optional<int> last_rank_;  // of this or the last one
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
