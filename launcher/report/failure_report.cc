#include "launcher/report/failure_report.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace ddprun::launcher {

namespace {

constexpr size_t kShownOthers = 16;
constexpr size_t kBarWidth = 92;

std::string_view Explain(int signal) {
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
    default:
      return "";
  }
}

// As torchrun: negative for signals.
int TorchrunExitCode(const ProcessExit& exit) {
  if (const auto* exited = std::get_if<Exited>(&exit)) return exited->code;
  return -std::get<Signaled>(exit).signal;
}

std::string Duration(std::chrono::milliseconds time) {
  if (time < std::chrono::seconds(1)) return std::to_string(time.count()) + " ms";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(time.count()) / 1000);
  return text;
}

std::string Names(const WorkerRecord& worker) {
  return "rank " + std::to_string(worker.rank) +
         " (local_rank: " + std::to_string(worker.local_rank) +
         ", pid: " + std::to_string(worker.pid) + ")";
}

std::string OtherLine(const WorkerRecord& worker) {
  std::string line = "  " + Names(worker) + " ";
  if (!worker.exit) return line + "does not end, although it got SIGKILL\n";
  line += DescribeExit(*worker.exit);
  if (worker.told_to_stop) {
    line += " after " + Duration(worker.ended_after);
  } else if (worker.ended_after.count() < 0) {
    line += " before that";
  } else {
    line += " by itself " + Duration(worker.ended_after) + " later";
  }
  return line + "\n";
}

std::string Others(const std::vector<WorkerRecord>& others) {
  std::string text;
  for (size_t i = 0; i < std::min(others.size(), kShownOthers); ++i) text += OtherLine(others[i]);
  if (others.size() > kShownOthers) {
    text += "  and " + std::to_string(others.size() - kShownOthers) + " more\n";
  }
  return text.empty() ? text : "The other workers of this node, stopped by ddprun:\n" + text;
}

std::string Indented(const std::string& text) {
  std::stringstream lines(text);
  std::string line;
  std::string result;
  while (std::getline(lines, line)) result += "  | " + line + "\n";
  return result;
}

// Its own words: what it left in the error file, else the end of its standard error.
std::string LastWords(const WorkerRecord& worker) {
  if (worker.error) {
    const std::string& words =
        worker.error->callstack.empty() ? worker.error->message : worker.error->callstack;
    return "It left this message:\n" + Indented(words);
  }
  if (worker.last_lines.empty()) return "It wrote nothing to stderr.\n";
  std::string text = "Its last lines on stderr:\n";
  for (const std::string& line : worker.last_lines) text += "  | " + line + "\n";
  return text;
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

std::string Summarize(const WorkerRecord& worker, const std::string& host) {
  return Names(worker) + " on " + host + " " +
         (worker.exit ? DescribeExit(*worker.exit) : "does not end");
}

std::string RenderFailure(const FailureReport& report, bool color) {
  const WorkerRecord& first = report.first;
  const ProcessExit exit = first.exit.value_or(Exited{1});
  std::string bar = "-- WORKER FAILED ";
  const std::string tail = " " + report.program;
  if (bar.size() + tail.size() < kBarWidth) bar.append(kBarWidth - bar.size() - tail.size(), '-');
  std::string text = color ? "\033[1;31m" + bar + tail + "\033[0m\n" : bar + tail + "\n";

  std::string what = "Rank " + std::to_string(first.rank) + " " + DescribeExit(exit);
  if (const auto* signaled = std::get_if<Signaled>(&exit)) {
    if (const std::string_view why = Explain(signaled->signal); !why.empty()) {
      what += ": " + std::string(why);
    }
  }
  text += what + ".\n";
  text += "  time      : " + report.time + "\n";
  text += "  host      : " + report.host + "\n";
  text += "  rank      : " + std::to_string(first.rank) +
          " (local_rank: " + std::to_string(first.local_rank) + ")\n";
  text += "  exitcode  : " + std::to_string(TorchrunExitCode(exit)) +
          " (pid: " + std::to_string(first.pid) + ")\n";
  text += "  error_file: " + (first.error ? first.error_file : "<N/A>") + "\n";
  text += LastWords(first);
  text += Others(report.others);
  text += "See docs/errors.md#worker-failed\n";
  return text;
}

}  // namespace ddprun::launcher
