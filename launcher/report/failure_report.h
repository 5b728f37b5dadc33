// The text that users read if a job has failed: the first failure at length, then a line for each
// other worker. The field names (rank, local_rank, exitcode, pid, error_file) are torchrun's,
// because scripts search for them. All functions are pure.
#pragma once

#include <string>
#include <vector>

#include "base/terminal.h"
#include "launcher/report/exit_text.h"
#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

struct FailureReport {
  std::string program;
  std::string host;
  std::string time;              // TimeText() of the first failure
  std::string interpreter = {};  // the Python that ran a script; "" means no script
  WorkerRecord first;
  std::vector<WorkerRecord> others = {};
};

// Returns the whole report, ending in a newline.
std::string RenderFailure(const FailureReport& report, const TextStyle& style);

// Returns the report of a failure on another node, from the record that the node has sent.
std::string RenderPeerFailure(const FailureReport& report, int node_rank, const TextStyle& style);

// Returns a few lines about a failure after which the group is restarted: the worker and its exit,
// its last words, evidence. Each ends in a newline.
std::string RenderAttemptFailure(const WorkerRecord& first, const std::string& host);

}  // namespace ddprun::launcher
