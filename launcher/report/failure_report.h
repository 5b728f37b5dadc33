// Pure: what the user reads when a job has failed. The first failure first and at length, the rest
// in a line each; torchrun's field names (rank, local_rank, exitcode, pid, error_file) kept, since
// scripts search for them.
#pragma once

#include <string>
#include <vector>

#include "launcher/report/exit_text.h"
#include "launcher/report/worker_record.h"

namespace ddprun::launcher {

struct TextStyle {
  bool color = false;   // for a terminal that shows colours
  size_t columns = 92;  // longer sentences are wrapped
};

struct FailureReport {
  std::string program;
  std::string host;
  std::string time;              // of the first failure, as torchrun writes it: 2026-11-21_00:24:56
  std::string interpreter = {};  // the Python that ran a script; empty: no script
  WorkerRecord first;
  std::vector<WorkerRecord> others = {};
};

// The whole screen, ending in a newline.
std::string RenderFailure(const FailureReport& report, const TextStyle& style);

// The same of a worker on another node, as far as that node has told.
std::string RenderPeerFailure(const FailureReport& report, int node_rank, const TextStyle& style);

// One to three lines for a failure after which the group is started again, each ending in a
// newline: who and how; its last words; evidence.
std::string RenderAttemptFailure(const WorkerRecord& first, const std::string& host);

}  // namespace ddprun::launcher
