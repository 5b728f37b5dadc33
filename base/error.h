// The one error value of ddprun: what went wrong, where, what was expected, what to do.
// A plain value without thread or global state; LibTorch-free.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// A separate code exists only where a caller reacts to it: by the exit status (ExitStatus), or by
// doing something else than to end. Callers ask the code; `page` is for readers alone.
enum class Code {
  kUsage,             // a flag or the config is wrong; exit 2
  kStateDoesNotFit,   // a saved state is not one of this run, as all its ranks find; exit 2
  kNoCheckpoint,      // the folder holds no checkpoint that this version reads; exit 2
  kRendezvous,        // the nodes did not come together; exit 3
  kAddressInUse,      // another program listens at the port; exit 3
  kCannotListen,      // the store cannot listen there for another reason; exit 3
  kNotExecutable,     // the worker program exists but cannot be executed; exit 126
  kNotFound,          // the worker program does not exist; exit 127
  kDeadlineExceeded,  // a peer did not answer in time; exit 1
  kRankLost,          // a rank that this one waits for was killed, and may be replaced; exit 1
  kDamaged,           // a file is not what was once written; exit 1
  kFailed,            // anything else, and the last code; exit 1
};

// `title` is a short headline ("UNKNOWN KEY"), `where` a place ("train.json:14:5", "rank 3",
// "port 29500"; may be empty), `what` one or more lines saying what was found and what was
// expected, `hint` what to do (may be empty), `page` the anchor in docs/errors.md (may be empty),
// `more` further errors found in the same input, shown below this one.
struct Error {
  Code code = Code::kFailed;
  std::string title = {};
  std::string where = {};
  std::string what = {};
  std::string hint = {};
  std::string page = {};
  std::vector<Error> more = {};

  // Adds what was being done, as a first line of `what`: "While joining round 3:".
  Error While(std::string_view doing) &&;
};

// An Error of kFailed from a failed system call: errno's text and the call's name.
// `what` says what was being done, e.g. "opening data/train.txt".
Error SystemError(std::string_view what, int error_number);

// strerror that is safe to call from any thread.
std::string ErrnoText(int error_number);

// The process exit status that docs/errors.md promises for the code.
int ExitStatus(Code code);

// Multi-line text for a terminal or log, at most 100 columns wide where the content allows it,
// with a title bar, ending in a newline.
std::string Render(const Error& error);

}  // namespace ddprun
