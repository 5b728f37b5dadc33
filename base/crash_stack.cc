#include "base/crash_stack.h"

#include <execinfo.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace ddprun {

namespace {

constexpr int kMaxFrames = 64;

struct Crash {
  int signal;
  const char* title;
};

// Also with SIGABRT the launcher ends a worker that hangs.
constexpr Crash kCrashes[] = {{SIGABRT, "Stack of this process at SIGABRT:\n"},
                              {SIGBUS, "Stack of this process at SIGBUS:\n"},
                              {SIGFPE, "Stack of this process at SIGFPE:\n"},
                              {SIGILL, "Stack of this process at SIGILL:\n"},
                              {SIGSEGV, "Stack of this process at SIGSEGV:\n"}};

// Calls only what may be called in a signal handler; backtrace() is, once it has been called. Where
// the stack is no longer readable, that ends the process by the same signal.
void OnCrash(int signal) {
  for (const Crash& crash : kCrashes) {
    if (crash.signal != signal) continue;
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, crash.title, std::strlen(crash.title));
  }
  void* frames[kMaxFrames];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, kMaxFrames), STDERR_FILENO);
  ::raise(signal);  // SA_RESETHAND: it ends the process now
}

}  // namespace

void PrintStackOnCrash() {
  // The first call loads a library, which a signal handler must not do.
  void* frame = nullptr;
  ::backtrace(&frame, 1);
  struct sigaction action = {};
  action.sa_handler = OnCrash;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const Crash& crash : kCrashes) {
    struct sigaction before = {};
    ::sigaction(crash.signal, nullptr, &before);
    if (before.sa_handler == SIG_DFL) ::sigaction(crash.signal, &action, nullptr);
  }
}

}  // namespace ddprun
