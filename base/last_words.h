// What a process says about the error that ends it: on stderr, and in the error file that its
// launcher asked for (TORCHELASTIC_ERROR_FILE).
#pragma once

#include "base/env.h"
#include "base/error.h"

namespace ddprun {

// The Error of the exception that is being handled, without the C++ backtrace in the text of a
// c10::Error. REQUIRES: called in a catch block.
Error CurrentError();

// Says in the error file and, where wanted, on stderr why this process ends; returns its exit
// status.
int ReportFailure(const Error& error, const Environment& environment, bool on_stderr = true);

// From now on an exception that nobody catches is reported so. A Failure then ends the process with
// its exit status; after any other the process aborts, as without this. Leaves a handler of
// std::terminate that somebody else has set alone.
void ReportUncaughtExceptions();

}  // namespace ddprun
