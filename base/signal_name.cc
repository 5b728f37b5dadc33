#include "base/signal_name.h"

#include <csignal>

namespace ddprun {

namespace {

constexpr const char* kSignalNames[] = {
    nullptr, "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
    "SEGV",  "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
    "TTOU",  "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "POLL", "PWR",  "SYS"};
static_assert(sizeof kSignalNames / sizeof *kSignalNames == SIGSYS + 1);

}  // namespace

const char* SignalAbbreviation(int signal) {
  return signal > 0 && signal <= SIGSYS ? kSignalNames[signal] : nullptr;
}

}  // namespace ddprun
