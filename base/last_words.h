// What a process says about the error that ends it: on stderr, in the error file that its launcher
// asked for (TORCHELASTIC_ERROR_FILE), and as a stack when a signal ends it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/error.h"
#include "base/result.h"

namespace ddprun {

// The Error of the exception that is being handled, without the C++ backtrace in the text of a
// c10::Error. REQUIRES: called in a catch block.
Error CurrentError();

// What it says alone, or of what type it is. REQUIRES: called in a catch block.
std::string ExceptionText();

// The exit status of a worker that has saved and ended because it was asked to: its job can go on
// later (EX_TEMPFAIL of sysexits.h). After an interrupt from the keyboard it is 128 + SIGINT.
inline constexpr int kStoppedStatus = 75;

// Says in the error file and, where wanted, on stderr why this process ends; returns its exit
// status.
int ReportFailure(const Error& error, const Environment& environment, bool on_stderr = true);

// From now on an exception that nobody catches is reported so. A Failure then ends the process with
// its exit status; after any other the process aborts, as without this. Leaves a handler of
// std::terminate that somebody else has set alone.
void ReportUncaughtExceptions();

struct WorkerError {
  std::string message;      // "ValueError: text", or the rendered Error of a ddprun worker
  std::string callstack;    // may be empty
  int64_t timestamp_s = 0;  // Unix time, seconds; 0 when the file had none
};

// Writes `path` whole or not at all.
Status WriteErrorFile(const std::string& path, const WorkerError& error);

// Reads both forms that torch elastic writes. nullopt when the file is absent or is not such a
// file: a worker may die in the middle of writing it, and that must not hide its exit status.
std::optional<WorkerError> ReadErrorFile(const std::string& path);

// From now on SIGABRT, SIGBUS, SIGFPE, SIGILL and SIGSEGV print the stack of the thread that takes
// the signal on standard error; then it ends the process as before. One that somebody handles
// already is left to them. Call it before there are threads that might get a signal; further calls
// do nothing.
void PrintStackOnCrash();

// What the stack is said to be of from now on: "rank 3" instead of "this process". At most 40
// characters.
void NameInStacks(std::string_view name);

}  // namespace ddprun
