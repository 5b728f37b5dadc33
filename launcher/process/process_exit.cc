#include "launcher/process/process_exit.h"

#include "base/signal_name.h"

namespace ddprun::launcher {

int ExitCode(const ProcessExit& exit) {
  if (const auto* exited = std::get_if<Exited>(&exit)) return exited->code;
  return 128 + std::get<Signaled>(exit).signal;
}

std::string SignalName(int signal) {
  const char* name = SignalAbbreviation(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

}  // namespace ddprun::launcher
