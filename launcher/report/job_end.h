// How a job ended on this node, as text for standard error and as JSON for --report_file.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <ddprun/error.h>
#include "launcher/report/failure_report.h"
#include "launcher/report/worker_record.h"
#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// One attempt on this node, from the start of its workers to the end of the last worker.
struct AttemptEnd {
  rendezvous::Membership membership = {};
  std::vector<WorkerRecord> workers = {};
  std::optional<size_t> first_failure = {};  // index into workers
  std::chrono::system_clock::time_point failure_time = {};
  std::chrono::system_clock::time_point started_at = {};
  std::chrono::system_clock::time_point ended_at = {};
  std::optional<rendezvous::RoundEnd> ended_elsewhere = {};  // another node ended the round
  std::string hang = {};               // the culprit, if --hang_timeout ended the workers
  std::vector<std::string> nccl = {};  // NcclFinding::lines
};

struct JobEnd {
  std::string program;
  std::string host;
  std::string interpreter = {};           // see FailureReport::interpreter
  std::vector<AttemptEnd> attempts = {};  // oldest first
  bool worker_failed = false;             // the last attempt's first failure ended the job
  std::optional<Error> error;             // an error of the launcher itself
  std::optional<rendezvous::RoundEnd> peer_failure;
  std::string slurm_step = {};  // "17.0"; "" without SLURM
  std::optional<int> stop_signal;
  std::vector<pid_t> unkillable;
  std::string resume_command = {};  // the last one of a worker; "" means none

  // For the report file only.
  std::string job_id = {};
  std::string run_id = {};
  int exit_code = 0;
  int unstyled_code = 0;                // exit_code before --exit_code changed it
  std::optional<int> worker_code = {};  // the first exit code other than 0 of a worker here
  int node_rank = 0;                    // of --node_rank; each attempt has its own
  bool has_node_rank = true;            // the node has or had `node_rank`
  std::chrono::system_clock::time_point started_at = {};
  std::chrono::system_clock::time_point ended_at = {};
  std::vector<std::string> log = {};  // the last lines of ddprun's log, also of level debug
};

// Returns whether a signal to another node's ddprun ended the round, and not a failure.
bool IsStop(const rendezvous::RoundEnd& end);

// Returns the local time in torchrun's format: "2026-11-21_00:24:56".
std::string TimeText(std::chrono::system_clock::time_point time);

// Returns the text for stderr; "" if all went well.
std::string RenderJobEnd(const JobEnd& end, const TextStyle& style);

// Returns indented JSON, ending in a newline. Bytes that are not UTF-8 are replaced.
std::string RenderReportJson(const JobEnd& end);

}  // namespace ddprun::launcher
