// Pure: whether a job goes on after a failure, how it ended here, and so ddprun's exit code.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/agent/job_history.h"
#include "launcher/process/process.h"
#include "launcher/report/job_end.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// Everything that may have happened on this node; most of it did not.
struct JobCauses {
  int own_node_rank = 0;
  bool several_nodes = false;
  std::optional<rendezvous::RoundEnd> round_end = {};  // of the last round, whoever ended it
  std::optional<Error> error = {};                     // the launcher's own
  std::optional<int> refusal = {};                     // exit code of a worker template
  std::optional<ProcessExit> first_failure = {};       // of a worker here, in the last round
  bool hung = false;  // the workers here were ended because they did not move
  std::optional<int> stop_signal = {};
  // The first other than 0 that a worker ended with, told to stop or not.
  std::optional<int> stopped_code = {};
  bool ended_well = false;      // all workers here: see EndsWell
  bool failed_to_save = false;  // although they were told to
  bool saves = false;           // workers save when they are told to stop: a trainer config
  std::vector<pid_t> unkillable = {};
};

// A worker's failure here, if it is what the job ended with: it is not when a restart followed.
bool EndedByOwnWorker(const JobCauses& causes);
// The round's end, if another node ended the job.
bool EndedElsewhere(const JobCauses& causes);

// Whether workers that are to stop now can save before: somebody has told a node to stop, or a node
// has come. Else they would wait for one that is gone. Those that hang are being ended otherwise.
bool StopsGently(const JobCauses& causes);
// What ddprun exits with when a job whose workers save is stopped by the signal.
int StoppedCode(int signal);

// What a user reads between the attempt that is over and the next one.
std::vector<std::string> RestartLines(const AgentPlan& plan,
                                      const rendezvous::Membership& membership,
                                      const rendezvous::RoundEnd& end);

// The same on every node that the end has reached. 0 when nothing went wrong.
int JobExitCode(const JobCauses& causes);
// `history` is complete.
JobEnd DescribeEnd(const AgentPlan& plan, const JobCauses& causes, const JobHistory& history);

// The workers of other nodes have not ended within --exit_barrier_timeout: this node goes without
// waiting for them, or stays because they need it.
std::string ExitBarrierLine(std::chrono::milliseconds limit, bool goes);
// torchrun knows 0, 1 and 2 only.
int StyledExitCode(int code, ExitCodeStyle style);

// What a node whose worker has failed asks of all nodes. `restart_count` is the job's, not the
// node's: max_restarts bounds all restarts together.
rendezvous::RoundEnd::Kind EndAfterFailure(int restart_count, int max_restarts);

// Keeps a job whose workers fail as soon as they have started from spinning: the first such
// restart is immediate, the next ones come after 0.25, 0.5, 1, 2 and then always 4 seconds. An
// attempt that lived long enough makes it forget.
class CrashLoop {
 public:
  static constexpr std::chrono::seconds kLongEnough{10};

  // How long to wait before the next attempt, after one that lived for `lifetime`.
  std::chrono::milliseconds PauseAfter(std::chrono::milliseconds lifetime);

 private:
  int short_lives_ = 0;
};

}  // namespace ddprun::launcher
