// What is known about one worker of an attempt once it has ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/last_words.h"
#include "launcher/process/process.h"

namespace ddprun::launcher {

struct OutOfMemory {
  bool certain = false;  // the kernel named this worker
  std::string what;      // a sentence without its full stop
};

struct WorkerRecord {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
  std::optional<ProcessExit> exit;           // absent: still there although killed
  bool told_to_stop = false;                 // the launcher had signalled it before it ended
  std::chrono::milliseconds ended_after{0};  // since the first failure; negative: before it
  std::chrono::system_clock::time_point started_at = {};
  std::chrono::system_clock::time_point ended_at = {};
  std::string error_file;
  bool error_file_removed = false;      // with the job's private folder
  std::optional<WorkerError> error;     // what the error file said
  std::vector<std::string> last_lines;  // of its standard error
  bool lines_shown = false;             // its standard error has been passed on to ours
  std::string stderr_file = {};         // where its standard error is kept; empty: nowhere
  // What it did or waited for when the first worker failed, as far as that is known:
  // "in all_reduce 41 for 3.2 s". Empty: unknown.
  std::string standing = {};
  // Why its end with code 0 is a failure: "rank 0 waiting for it in all_reduce 41". Empty: none.
  std::string left = {};
  std::vector<std::string> last_log = {};  // lines that it left in the flight recorder
  std::string to_go_on = {};  // the command that it left to continue the job's work; empty: none
  std::optional<OutOfMemory> out_of_memory = {};
  std::string gpu_bus_id = {};  // the GPU that it computed on, as it said; empty: none, or unknown
  std::string gpu = {};         // what the driver says of that after the end; empty: was not asked
  std::string core_dump = {};   // where its memory image is, or why there is none; empty: no matter
};

}  // namespace ddprun::launcher
