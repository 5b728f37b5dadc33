// Decides whether a job continues after a failure, how it ended on this node, and with which code
// ddprun exits. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <ddprun/error.h>
#include "launcher/agent/agent_plan.h"
#include "launcher/agent/job_history.h"
#include "launcher/process/process_exit.h"
#include "launcher/report/job_end.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// The possible causes of the job's end on this node. Most are unset in any one job.
struct JobCauses {
  int own_node_rank = 0;
  bool several_nodes = false;
  std::optional<rendezvous::RoundEnd> round_end = {};  // of the last round, ended by any node
  std::optional<Error> error = {};                     // an error of this node's launcher
  std::optional<int> refusal = {};                     // exit code of a worker template
  std::optional<ProcessExit> first_failure = {};  // of a worker on this node, in the last round
  bool hung = false;  // ddprun ended this node's workers because they hung
  std::optional<int> stop_signal = {};
  // The first exit code other than 0 of a worker, also of one that was told to stop.
  std::optional<int> stopped_code = {};
  bool ended_well = false;      // all workers of this node ended well: see IsSuccess()
  bool failed_to_save = false;  // workers were told to save, and not all have
  bool saves = false;  // workers save when they are told to stop: only with a trainer config
  std::vector<pid_t> unkillable = {};
};

// Adds what is known from the last attempt on this node.
void AddAttempt(const RunningAttempt& attempt, JobCauses& causes);

// Returns whether a failed worker of this node ended the job, and not only a round before a
// restart.
bool EndedByOwnWorker(const JobCauses& causes);
// Returns whether another node ended the job.
bool EndedElsewhere(const JobCauses& causes);

// Returns whether workers can save before they stop: a signal stops the job, or a node has come.
// Otherwise they would wait for a worker that is gone. Also true if workers hang, because HangGuard
// ends them.
bool StopsGently(const JobCauses& causes);
// Returns what a node that a signal stops tells the others: "NODE was stopped by SIGTERM". Their
// SaveSignal() reads the signal in it.
std::string StopMessage(const std::string& node, int signal);
// Returns the signal that asks a worker of ddp-trainer to save and end.
int SaveSignal(const JobCauses& causes);
// Returns ddprun's exit code if the signal stops a job whose workers save.
int StoppedCode(int signal);

// Returns the lines that a user reads between two attempts.
std::vector<std::string> RestartLines(const AgentPlan& plan,
                                      const rendezvous::Membership& membership,
                                      const rendezvous::RoundEnd& end);

// Returns ddprun's exit code: equal on all nodes that know of the end, 0 if nothing failed.
int JobExitCode(const JobCauses& causes);
// Returns the facts for the reports. `history` must be complete.
JobEnd DescribeEnd(const AgentPlan& plan, const JobCauses& causes, const JobHistory& history);

// Returns the line for a node that --exit_barrier_timeout has expired for: it leaves (`goes`), or
// stays because other nodes need what it hosts.
std::string ExitBarrierLine(std::chrono::milliseconds limit, bool goes);
// Returns `code` in the style of --exit_code; torchrun has only the codes 0, 1 and 2.
int StyledExitCode(int code, ExitCodeStyle style);

// Returns how a node whose worker has failed ends the round. `restart_count` is the job's, because
// max_restarts limits all restarts of the job together.
rendezvous::RoundEnd::Kind EndAfterFailure(int restart_count, int max_restarts);

// Slows down the restarts of a job whose workers fail as soon as they have started. The first
// restart comes at once, the next ones after 0.25, 0.5, 1, 2 and then always 4 seconds. An attempt
// of kLongEnough resets the pauses.
class CrashLoop {
 public:
  static constexpr std::chrono::seconds kLongEnough{10};

  // Returns the pause before the next attempt, after an attempt that lived for `lifetime`.
  std::chrono::milliseconds PauseAfter(std::chrono::milliseconds lifetime);

 private:
  int short_lives_ = 0;
};

}  // namespace ddprun::launcher
