// ddprun's error value: what went wrong, where, what was expected, what to do; the exception that
// carries it; and the last words of a process. Free of LibTorch.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

// A code exists only if a caller reacts to it: with another exit status (ExitStatus), or with
// another action than to end. Callers compare the code; `page` is for readers only.
enum class Code {
  kUsage,             // a flag or the config is wrong; exit 2
  kStateDoesNotFit,   // all ranks find that a saved state is not one of this run; exit 2
  kNoCheckpoint,      // the folder holds no checkpoint that this version reads; exit 2
  kRendezvous,        // the nodes did not come together; exit 3
  kAddressInUse,      // another program listens at the port; exit 3
  kCannotListen,      // the store cannot listen there for another reason; exit 3
  kNotExecutable,     // the worker program exists but cannot be executed; exit 126
  kNotFound,          // the worker program does not exist; exit 127
  kDeadlineExceeded,  // a peer did not answer in time; exit 1
  kRankLost,          // a rank that this rank waits for was killed, and may be replaced; exit 1
  kDamaged,           // a file is not as it was written; exit 1
  kNotNeeded,         // the job does without this node, which has not failed; exit 0
  kFailed,            // anything else, and the last code; exit 1
};

// `title` is a short headline ("UNKNOWN KEY"). `where` is a place ("train.json:14:5", "rank 3"),
// `what` has lines with what was found and what was expected, `hint` says what to do, and `page` is
// an anchor in docs/errors.md. `more` has further errors of the input, shown below this one;
// `hidden` others are only counted.
struct Error {
  Code code = Code::kFailed;
  std::string title = {};
  std::string where = {};
  std::string what = {};
  std::string hint = {};
  std::string page = {};
  std::vector<Error> more = {};
  size_t hidden = 0;

  // Puts "While joining round 3:" as a first line before `what`.
  Error While(std::string_view doing) &&;
};

// Returns a kFailed error of a failed system call: "opening data/train.txt: No such file ...".
Error SystemError(std::string_view what, int error_number);

// Returns strerror's text. Any thread.
std::string ErrnoText(int error_number);

// Returns the process's exit status, as docs/errors.md promises it for the code.
int ExitStatus(Code code);

// Returns lines for a terminal or log, with a title bar; the last ends in a newline.
std::string Render(const Error& error);

// Carries an Error through code that uses LibTorch, which throws c10::Error anyway.
class Failure : public std::runtime_error {
 public:
  explicit Failure(Error error) : std::runtime_error(error.what), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// An error that every rank has found by itself at the same place. Only one rank reports it.
class FailureOfAllRanks : public Failure {
  using Failure::Failure;
};

// Returns the Error of the exception that is being handled, without the C++ backtrace that
// c10::Error has in its text. REQUIRES: called in a catch block.
Error CurrentError();

// Returns only that exception's text, or its type's name. REQUIRES: called in a catch block.
std::string ExceptionText();

// The exit status of a worker that has saved and ended because it was asked to, so that its job can
// be resumed (EX_TEMPFAIL of sysexits.h). After SIGINT the status is 128 + SIGINT instead.
inline constexpr int kStoppedStatus = 75;

// Reports uncaught exceptions from now on, on stderr and in the launcher's error file. A Failure
// then ends the process with its exit status; any other exception aborts it. Does nothing if
// std::terminate already has a handler that is not the default one.
void ReportUncaughtExceptions();

// Prints from now on, at SIGABRT, SIGBUS, SIGFPE, SIGILL and SIGSEGV, the stack of the thread that
// gets the signal on stderr, before the process ends. A signal that already has a handler keeps it,
// so a second call does nothing. Call this before the process starts threads.
void PrintStackOnCrash();

// Names this process in the titles of stacks from now on: "Stack of `name`", such as "rank 3",
// instead of "this process". `name` has at most 40 characters.
void NameInStacks(std::string_view name);

}  // namespace ddprun
