// Pure: what the user reads when a job has failed. The first failure first and at length, the rest
// in a line each; torchrun's field names (rank, local_rank, exitcode, pid, error_file) kept, since
// scripts search for them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/error_file.h"
#include "launcher/process/process.h"

namespace ddprun::launcher {

struct WorkerRecord {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
  std::optional<ProcessExit> exit;           // absent: still there although killed
  bool told_to_stop = false;                 // the launcher had signalled it before it ended
  std::chrono::milliseconds ended_after{0};  // since the first failure; negative: before it
  std::string error_file;
  std::optional<WorkerError> error;     // what the error file said
  std::vector<std::string> last_lines;  // of its standard error
};

struct FailureReport {
  std::string program;
  std::string host;
  std::string time;  // of the first failure, as torchrun writes it: 2026-11-21_00:24:56
  WorkerRecord first;
  std::vector<WorkerRecord> others = {};
};

// "exited with code 7", "was killed by SIGKILL".
std::string DescribeExit(const ProcessExit& exit);

// "rank 3 (local_rank: 1, pid: 812) on node1 exited with code 7": one line for other nodes.
std::string Summarize(const WorkerRecord& worker, const std::string& host);

// The whole screen, ending in a newline. `color`: for a terminal.
std::string RenderFailure(const FailureReport& report, bool color);

}  // namespace ddprun::launcher
