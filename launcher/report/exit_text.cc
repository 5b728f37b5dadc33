#include "launcher/report/exit_text.h"

#include <signal.h>

#include <algorithm>
#include <string_view>

#include "base/last_words.h"

namespace ddprun::launcher {

namespace {

std::string_view ExplainSignal(int signal) {
  switch (signal) {
    case SIGKILL:
      return "by someone (kill -9), or by the kernel because memory ran out: see dmesg and the "
             "job's memory limit";
    case SIGSEGV:
      return "it touched memory that is not its own";
    case SIGABRT:
      return "it ended itself, often after a failed check or an uncaught C++ exception";
    case SIGBUS:
      return "often a full /dev/shm, or a mapped file that became shorter";
    case SIGILL:
      return "an instruction that this CPU does not have";
    case SIGFPE:
      return "often an integer division by zero";
    case SIGTERM:
      return "someone asked it to end";
    case SIGPIPE:
      return "nobody reads its output any more: the program behind the pipe has ended, or the disk "
             "is full";
    case SIGXCPU:
      return "its limit of CPU time (ulimit -t) was used up";
    case SIGXFSZ:
      return "it wrote a file larger than its limit (ulimit -f)";
    case SIGSYS:
      return "a system call that is forbidden here (seccomp)";
    default:
      return "";
  }
}

}  // namespace

std::string DescribeExit(const ProcessExit& exit) {
  if (const auto* exited = std::get_if<Exited>(&exit)) {
    return "exited with code " + std::to_string(exited->code);
  }
  const Signaled& signaled = std::get<Signaled>(exit);
  return "was killed by " + SignalName(signaled.signal) +
         (signaled.dumped_core ? " (core dumped)" : "");
}

std::string DescribeEnd(const WorkerRecord& worker) {
  if (!worker.exit) return "does not end";
  return DescribeExit(*worker.exit) + (worker.left.empty() ? "" : " and left " + worker.left);
}

bool IsSuccess(const ProcessExit& exit, bool saves) {
  const auto* exited = std::get_if<Exited>(&exit);
  if (exited == nullptr) return false;
  return exited->code == 0 ||
         (saves && (exited->code == kStoppedStatus || exited->code == 128 + SIGINT));
}

int FailureCode(const ProcessExit& exit) {
  return std::max(1, ExitCode(exit));
}

std::string ExplainExit(const ProcessExit& exit) {
  if (const auto* signaled = std::get_if<Signaled>(&exit)) {
    return std::string(ExplainSignal(signaled->signal));
  }
  const int code = std::get<Exited>(exit).code;
  if (code <= 128 || code > 128 + SIGSYS) return "";
  return "so a shell says that a program of it was killed by " + SignalName(code - 128);
}

int TorchrunExitCode(const ProcessExit& exit) {
  if (const auto* exited = std::get_if<Exited>(&exit)) return exited->code;
  return -std::get<Signaled>(exit).signal;
}

std::string WorkerName(const WorkerRecord& worker) {
  return "rank " + std::to_string(worker.rank) +
         " (local_rank: " + std::to_string(worker.local_rank) +
         ", pid: " + std::to_string(worker.pid) + ")";
}

std::string Summarize(const WorkerRecord& worker, const std::string& host) {
  return WorkerName(worker) + " on " + host + " " + DescribeEnd(worker);
}

}  // namespace ddprun::launcher
