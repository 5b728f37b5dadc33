// All that is known about one worker of an attempt after its end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/last_words.h"
#include "launcher/process/process_exit.h"

namespace ddprun::launcher {

struct OutOfMemory {
  bool certain = false;  // the kernel's log names this worker
  std::string what;      // a sentence without full stop
};

struct WorkerRecord {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
  std::optional<ProcessExit> exit;           // nullopt means that it was killed but does not end
  bool told_to_stop = false;                 // the launcher signalled it before it ended
  std::chrono::milliseconds ended_after{0};  // since the first failure; negative means before it
  std::chrono::system_clock::time_point started_at = {};
  std::chrono::system_clock::time_point ended_at = {};
  std::string error_file;
  bool error_file_removed = false;      // removed with the job's private folder
  std::optional<WorkerError> error;     // the content of the error file
  std::vector<std::string> last_lines;  // of its stderr
  bool lines_shown = false;             // ddprun has passed its stderr on to its own
  std::string stderr_file = {};         // the file with its stderr; "" means none
  // Its state when the first worker failed: "in all_reduce 41 for 3.2 s". "" means unknown.
  std::string last_activity = {};
  // Why its end with code 0 is a failure: "rank 0 waiting for it in all_reduce 41". "" means none.
  std::string left = {};
  // NcclFinding::lines about the ranks of its node; only of the worker that failed first.
  std::vector<std::string> nccl = {};
  std::vector<std::string> last_log = {};  // its last log lines in the flight recorder
  std::string resume_command = {};         // FlightReader::ReadResumeCommand(); "" means none
  std::optional<OutOfMemory> out_of_memory = {};  // nullopt means no evidence
  std::string gpu_bus_id = {};                    // FlightReader::ReadGpu(); "" means none
  std::string gpu = {};        // ExplainGpu(); "" means that the driver was not asked
  std::string core_dump = {};  // ExplainCoreDump(); "" means that it ended without core dump
};

}  // namespace ddprun::launcher
