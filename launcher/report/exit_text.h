// Pure: how a worker ended, in words.
#pragma once

#include <string>

#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

// "exited with code 7", "was killed by SIGKILL".
std::string DescribeExit(const ProcessExit& exit);

// The same of a worker that has ended; with code 0, also whom it has left waiting.
std::string DescribeEnd(const WorkerRecord& worker);

// Whether the worker has done its work. One that saves when it is told to stop may also exit with
// kStoppedStatus or, after SIGINT, 128 + SIGINT, whoever told it.
bool EndsWell(const ProcessExit& exit, bool saves);

// What ddprun exits with when the job ends with this worker: never 0.
int FailureCode(const ProcessExit& exit);

// What such an exit usually means, without a full stop; empty when there is nothing to say.
std::string ExplainExit(const ProcessExit& exit);

// As torchrun: the code, or the signal's number below zero.
int TorchrunExitCode(const ProcessExit& exit);

// "rank 3 (local_rank: 1, pid: 812) on node1 exited with code 7": one line for other nodes.
std::string Summarize(const WorkerRecord& worker, const std::string& host);

// "rank 3 (local_rank: 1, pid: 812)"
std::string WorkerName(const WorkerRecord& worker);

}  // namespace ddprun::launcher
