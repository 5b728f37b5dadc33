// Reports the error that ends this process: on stderr, in the error file of its launcher
// (TORCHELASTIC_ERROR_FILE), and as a stack if a signal ends the process.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <ddprun/error.h>
#include "base/env.h"
#include "base/result.h"

namespace ddprun {

// Writes the error to the error file and, if `on_stderr`, to stderr. Returns the exit status.
int ReportFailure(const Error& error, const Environment& environment, bool on_stderr = true);

// Returns the error of an exception that nobody catches: CurrentError, if nobody sets another.
extern Error (*uncaught_error)();

struct WorkerError {
  std::string message;      // "ValueError: text", or the rendered Error of a ddprun worker
  std::string callstack;    // may be empty
  int64_t timestamp_s = 0;  // Unix time, seconds; 0 if the file has none
};

// Writes `path` whole or not at all.
Status WriteErrorFile(const std::string& path, const WorkerError& error);

// Reads both forms that torch elastic writes. Returns nullopt if the file is absent or has neither
// form, because a worker may die while it writes, which must not hide its exit status.
std::optional<WorkerError> ReadErrorFile(const std::string& path);

}  // namespace ddprun
