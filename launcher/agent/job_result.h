// Pure: how a job that did not simply succeed ended here, and so ddprun's exit code.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/error.h"
#include "launcher/cli/options.h"
#include "launcher/process/process.h"
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
  std::optional<int> stopped_code =
      {};  // the first other than 0 that a worker told to stop ended with
};

// A worker's failure here, if it is what the job ended with: it is not when a restart followed.
bool EndedByOwnWorker(const JobCauses& causes);
// The round's end, if another node ended the job.
bool EndedElsewhere(const JobCauses& causes);

// The same on every node that the end has reached. 0 when nothing went wrong.
int JobExitCode(const JobCauses& causes);
// The workers of other nodes have not ended within --exit_barrier_timeout: this node goes without
// waiting for them, or stays because they need it.
std::string ExitBarrierLine(std::chrono::milliseconds limit, bool goes);
// torchrun knows 0, 1 and 2 only.
int StyledExitCode(int code, ExitCodeStyle style);

}  // namespace ddprun::launcher
