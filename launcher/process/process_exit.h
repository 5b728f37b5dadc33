// How a process has ended.
#pragma once

#include <string>
#include <variant>

namespace ddprun::launcher {

struct Exited {
  int code = 0;
  friend bool operator==(const Exited&, const Exited&) = default;
};
struct Signaled {
  int signal = 0;
  bool dumped_core = false;
  friend bool operator==(const Signaled&, const Signaled&) = default;
};
using ProcessExit = std::variant<Exited, Signaled>;

// Returns the exit code as a shell has it: the code, or 128 + signal.
int ExitCode(const ProcessExit& exit);
// Returns "SIGKILL", or "signal 42" for a signal without a name.
std::string SignalName(int signal);

}  // namespace ddprun::launcher
