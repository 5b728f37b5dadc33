// error.json as torch elastic writes and reads it (torch/distributed/elastic/multiprocessing/
// errors/error_handler.py, 2.11): the worker leaves its last words, the agent shows them.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace ddprun {

struct WorkerError {
  std::string message;      // "ValueError: text", or the rendered Error of a ddprun worker
  std::string callstack;    // may be empty
  int64_t timestamp_s = 0;  // Unix time, seconds; 0 when the file had none
};

// Writes `path` whole or not at all (temporary file, then rename).
Status WriteErrorFile(const std::string& path, const WorkerError& error);

// Reads both forms that torch elastic writes. nullopt when the file is absent or is not such a
// file: a worker may die in the middle of writing it, and that must not hide its exit status.
std::optional<WorkerError> ReadErrorFile(const std::string& path);

}  // namespace ddprun
