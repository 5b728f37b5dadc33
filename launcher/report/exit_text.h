// Says in words how a worker ended. All functions are pure.
#pragma once

#include <string>

#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// Returns "exited with code 7", "was killed by SIGKILL".
std::string DescribeExit(const ProcessExit& exit);

// Returns DescribeExit() and WorkerRecord::left, or "does not end".
std::string DescribeEnd(const WorkerRecord& worker);

// Returns whether the exit is a success. `saves` means that a worker that is told to stop saves
// first: it may then exit with kStoppedStatus or 128 + SIGINT.
bool IsSuccess(const ProcessExit& exit, bool saves);

// Returns ddprun's exit status if this worker's failure ends the job; never 0.
int FailureCode(const ProcessExit& exit);

// Returns what such an exit usually means, without full stop; may be empty.
std::string ExplainExit(const ProcessExit& exit);

// Returns torchrun's number: the exit code, or the negated signal.
int TorchrunExitCode(const ProcessExit& exit);

// Returns one line for other nodes: "rank 3 (local_rank: 1, pid: 812) on node1 exited with code 7".
std::string Summarize(const WorkerRecord& worker, const std::string& host);

// Returns "rank 3 (local_rank: 1, pid: 812)".
std::string WorkerName(const WorkerRecord& worker);

}  // namespace ddprun::launcher
