#include "base/crash_stack.h"

#include <execinfo.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace ddprun {

namespace {

constexpr int kMaxFrames = 64;

constexpr size_t kMaxName = 40;

struct Crash {
  int signal;
  const char* name;
};

// Also with SIGABRT the launcher ends a worker that hangs.
constexpr Crash kCrashes[] = {{SIGABRT, "SIGABRT"},
                              {SIGBUS, "SIGBUS"},
                              {SIGFPE, "SIGFPE"},
                              {SIGILL, "SIGILL"},
                              {SIGSEGV, "SIGSEGV"}};

char process_name[kMaxName + 1] = "this process";

// Calls only what may be called in a signal handler; backtrace() is, once it has been called. Where
// the stack is no longer readable, that ends the process by the same signal.
void OnCrash(int signal) {
  for (const Crash& crash : kCrashes) {
    if (crash.signal != signal) continue;
    char title[kMaxName + 40] = "Stack of ";
    const char* const parts[] = {process_name, " at ", crash.name, ":\n"};
    for (const char* part : parts) std::strcat(title, part);
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, title, std::strlen(title));
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

void NameInStacks(std::string_view name) {
  name = name.substr(0, kMaxName);
  std::memcpy(process_name, name.data(), name.size());
  process_name[name.size()] = '\0';
}

}  // namespace ddprun
