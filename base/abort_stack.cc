#include "base/abort_stack.h"

#include <execinfo.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace ddprun {

namespace {

constexpr int kMaxFrames = 64;

// Calls only what may be called in a signal handler; backtrace() is, once it has been called.
void OnAbort(int signal) {
  constexpr char kTitle[] = "Stack of this worker when it was told to end:\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kTitle, sizeof kTitle - 1);
  void* frames[kMaxFrames];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, kMaxFrames), STDERR_FILENO);
  ::raise(signal);  // SA_RESETHAND: it ends the process now
}

}  // namespace

void PrintStackOnAbort() {
  // The first call loads a library, which a signal handler must not do.
  void* frame = nullptr;
  ::backtrace(&frame, 1);
  struct sigaction action = {};
  action.sa_handler = OnAbort;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGABRT, &action, nullptr);
}

}  // namespace ddprun
