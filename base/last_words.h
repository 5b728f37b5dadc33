// Reports the error that ends this process: on stderr, in the error file of its launcher
// (TORCHELASTIC_ERROR_FILE), and as a stack if a signal ends the process.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/error.h"
#include "base/result.h"

namespace ddprun {

// Returns the Error of the exception that is being handled, without the C++ backtrace that
// c10::Error has in its text. REQUIRES: called in a catch block.
Error CurrentError();

// Returns only that exception's text, or its type's name. REQUIRES: called in a catch block.
std::string ExceptionText();

// The exit status of a worker that has saved and ended because it was asked to, so that its job can
// be resumed (EX_TEMPFAIL of sysexits.h). After SIGINT the status is 128 + SIGINT instead.
inline constexpr int kStoppedStatus = 75;

// Writes the error to the error file and, if `on_stderr`, to stderr. Returns the exit status.
int ReportFailure(const Error& error, const Environment& environment, bool on_stderr = true);

// From now on ReportFailure() reports uncaught exceptions. A Failure then ends the process with its
// exit status; any other exception aborts it. Does nothing if std::terminate already has a handler
// that is not the default one.
void ReportUncaughtExceptions();

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

// From now on SIGABRT, SIGBUS, SIGFPE, SIGILL and SIGSEGV print the stack of the thread that gets
// the signal on stderr before they end the process. A signal that already has a handler keeps it,
// so a second call does nothing. Call this before the process starts threads.
void PrintStackOnCrash();

// From now on stacks have the title "Stack of `name`", such as "rank 3", instead of "this process".
// `name` has at most 40 characters.
void NameInStacks(std::string_view name);

}  // namespace ddprun
