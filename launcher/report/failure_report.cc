#include "launcher/report/failure_report.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "launcher/report/text_block.h"

namespace ddprun::launcher {

namespace {

constexpr size_t kShownOthers = 16;
constexpr size_t kMaxErrorLines = 60;
constexpr size_t kLines = 20;
constexpr size_t kLogLines = 3;
constexpr size_t kLastWordsBytes = 200;

std::string Duration(std::chrono::milliseconds time) {
  if (time < std::chrono::seconds(1)) return std::to_string(time.count()) + " ms";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(time.count()) / 1000);
  return text;
}

bool IsTracebackFrame(const std::string& line) {
  return line.starts_with("  File \"") && line.find(", in ") != std::string::npos;
}

// Returns whether the line only separates the parts of a Python ExceptionGroup:
// "    +---------------- 2 ----------------".
bool IsGroupRule(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(' '), line.size())).starts_with("+-");
}

// Takes the stack that base/crash_stack.h printed out of `lines`. Returns the names of its
// functions.
std::vector<std::string> TakeStack(std::vector<std::string>& lines) {
  const auto head = std::ranges::find_if(lines, [](const std::string& line) {
    return line.find("[0x") != line.npos || line.starts_with("Stack of ");
  });
  std::vector<std::string> names;
  auto end = head;
  for (bool named = false; end != lines.end(); ++end) {
    const bool title = end->starts_with("Stack of ");
    named = named || (title && end->ends_with(", by name:"));
    const bool name = named && end->starts_with("  ");
    if (name) names.push_back(*end);
    if (!title && !name && end->find("[0x") == end->npos) break;
  }
  lines.erase(head, end);
  return names;
}

// Returns the line of a stderr's end that says most. The last of these counts: the line below a
// title, a C++ exception's text, the head of a stack, the exception of a Python traceback. If there
// is none, it is the last line; of an ExceptionGroup the last exception within it.
std::string KeyLine(std::vector<std::string> lines) {
  TakeStack(lines);
  std::string last;
  std::string raised;
  for (size_t i = lines.size(); i-- > 0;) {
    if (!lines[i].empty() && lines[i][0] != ' ') raised = lines[i];
    if (IsTracebackFrame(lines[i]) && !raised.empty()) return raised;
    if (lines[i].starts_with("-- ") && i + 1 < lines.size()) return lines[i + 1];
    const bool heads_stack = lines[i].starts_with("Fatal Python error");
    if (heads_stack || lines[i].starts_with("  what():")) return lines[i];
    if (last.empty() && !IsGroupRule(lines[i])) last = lines[i];
  }
  return last;
}

// Returns the KeyLine() of a Python traceback or a ddprun error; the first line of other messages.
std::string Gist(const std::string& message) {
  const std::vector<std::string> lines = SplitLines(message);
  if (lines.empty()) return "";
  const bool has_key = lines[0].starts_with("Traceback") || lines[0].starts_with("-- ");
  return has_key && lines.size() > 1 ? KeyLine(lines) : lines[0];
}

std::string OtherLine(const WorkerRecord& worker, const std::string& key) {
  std::string line = "  " + WorkerName(worker);
  if (!worker.exit) return line + " does not end, although it got SIGKILL\n";
  const std::string how = DescribeExit(*worker.exit);
  if (worker.told_to_stop) {
    line += " " + how + " when told to stop (" + Duration(worker.ended_after) + ")";
  } else if (worker.ended_after.count() < 0) {
    line += " " + how + " before that";
  } else {
    line += " " + how + " by itself " + Duration(worker.ended_after) + " later";
    if (!key.empty() && KeyLine(worker.last_lines) == key) line += " with the same error";
  }
  if (!worker.last_activity.empty()) line += "; until then " + worker.last_activity;
  if (worker.out_of_memory && worker.out_of_memory->certain) {
    line += "; " + worker.out_of_memory->what;
  }
  return line + "\n";
}

// Sorts workers: possible other causes come before consequences of the first failure.
int Interest(const WorkerRecord& worker) {
  if (!worker.exit) return 1;
  if (worker.told_to_stop) return 2;
  return ExitCode(*worker.exit) != 0 ? 0 : 3;
}

// `key` is the KeyLine() of the first failure.
std::string Others(std::vector<WorkerRecord> others, const std::string& key) {
  if (others.empty()) return "";
  std::stable_sort(others.begin(), others.end(),
                   [](const auto& a, const auto& b) { return Interest(a) < Interest(b); });
  std::string text = "The other workers of this node:\n";
  for (size_t i = 0; i < std::min(others.size(), kShownOthers); ++i) {
    text += OtherLine(others[i], key);
  }
  if (others.size() > kShownOthers) {
    text += "  and " + std::to_string(others.size() - kShownOthers) + " more\n";
  }
  return text;
}

// Returns whether the user still sees the line `key` above the report: ddprun has passed the
// worker's stderr on, and the others have written little.
bool ShowsAbove(const FailureReport& report, const WorkerRecord& worker, const std::string& key) {
  if (!worker.lines_shown || std::ranges::count(worker.last_lines, key) == 0) return false;
  size_t lines_of_others = 0;
  for (const WorkerRecord& other : report.others) {
    if (other.rank != worker.rank) lines_of_others += other.last_lines.size();
  }
  return lines_of_others <= kLines;
}

std::vector<std::string> WithoutFrames(std::vector<std::string> lines) {
  std::erase_if(lines, [](const std::string& line) { return IsStackFrame(line); });
  return lines;
}

// Returns the worker's error file, else the end of its stderr. If the terminal shows the error
// right above, returns only its key line.
std::string LastWords(const FailureReport& report) {
  const WorkerRecord& first = report.first;
  std::vector<std::string> printed = first.last_lines;
  const std::vector<std::string> stack = TakeStack(printed);
  std::vector<std::string> left;
  if (first.error) {
    left = WithoutFrames(
        SplitLines(first.error->callstack.empty() ? first.error->message : first.error->callstack));
  }
  const std::string key = first.error ? Gist(first.error->message) : KeyLine(printed);
  if (printed.size() > 1 && ShowsAbove(report, first, key)) {
    return "It printed this error; the whole stands above:\n" + Quote({key}, 1);
  }
  // An error of all ranks is printed by one of them.
  const auto printer = std::ranges::find_if(
      report.others, [&](const WorkerRecord& other) { return ShowsAbove(report, other, key); });
  if (!left.empty() && printer != report.others.end()) {
    return "Rank " + std::to_string(printer->rank) +
           " printed this error; the whole stands above:\n" + Quote({key}, 1);
  }
  if (!left.empty()) return "It left this message:\n" + Quote(left, kMaxErrorLines);
  if (printed.empty() && !stack.empty()) return "";
  if (printed.empty()) return "It wrote nothing to stderr.\n";
  return "Its last lines on stderr:\n" + Quote(printed, kLines);
}

// Returns the functions in which the signal came to the worker, the innermost first.
std::string Stack(const WorkerRecord& first) {
  std::vector<std::string> lines = first.last_lines;
  const std::vector<std::string> names = TakeStack(lines);
  return names.empty() ? "" : "It was in these functions:\n" + Quote(names, kLines);
}

// Returns log lines only of a worker that a signal ended, because it could not print an error.
std::string LastLog(const WorkerRecord& first) {
  const std::vector<std::string>& log = first.last_log;
  if (log.empty() || !first.exit || !std::holds_alternative<Signaled>(*first.exit)) return "";
  const size_t shown = std::min(log.size(), kLogLines);
  return "Its last log lines:\n" + Quote({log.end() - shown, log.end()}, shown);
}

std::string Joined(const std::vector<std::string>& lines) {
  return lines.empty() ? "" : FormatList(lines, "\n") + "\n";
}

// Names the Python if a module is missing, because users often expect another Python.
std::string InterpreterHint(const FailureReport& report) {
  const std::vector<std::string>& lines = report.first.last_lines;
  const bool lacks_module = std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("ModuleNotFoundError:");
  });
  if (!lacks_module || report.interpreter.empty()) return "";
  return "It was run by " + report.interpreter + "; PYTHON_EXEC=/path/to/python3 names another.\n";
}

std::string Fields(const FailureReport& report) {
  const WorkerRecord& first = report.first;
  const ProcessExit exit = first.exit.value_or(Exited{1});
  std::string text = "  time      : " + report.time + "\n";
  text += "  host      : " + report.host + "\n";
  text += "  rank      : " + std::to_string(first.rank) +
          " (local_rank: " + std::to_string(first.local_rank) + ")\n";
  text += "  exitcode  : " + std::to_string(TorchrunExitCode(exit)) +
          " (pid: " + std::to_string(first.pid) + ")\n";
  text += "  error_file: " + (first.error ? first.error_file : "<N/A>");
  text += first.error && first.error_file_removed ? " (removed; --log_dir keeps it)\n" : "\n";
  if (!first.stderr_file.empty()) text += "  stderr    : " + first.stderr_file + "\n";
  if (!first.gpu.empty()) text += "  gpu       : " + first.gpu + "\n";
  if (!first.core_dump.empty()) text += "  core      : " + first.core_dump + "\n";
  return text;
}

// Returns "Rank 1 was killed by SIGKILL: why."
std::string FirstSentence(const WorkerRecord& first, const std::string& where) {
  const ProcessExit exit = first.exit.value_or(Exited{1});
  std::string text = "Rank " + std::to_string(first.rank) + where + " " + DescribeEnd(first);
  const bool killed = std::holds_alternative<Signaled>(exit);
  const std::string why =
      first.out_of_memory && killed ? first.out_of_memory->what : ExplainExit(exit);
  if (!why.empty()) text += ": " + why;
  text += ".";
  if (first.out_of_memory && !killed) {
    std::string what = first.out_of_memory->what;
    what[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(what[0])));
    text += " " + what + ".";
  }
  if (first.out_of_memory) {
    text +=
        " Give each rank less to hold (smaller batches, fewer loader workers), or start fewer "
        "ranks.";
  }
  if (!first.left.empty()) text += " All ranks have to call the same collectives.";
  return text;
}

}  // namespace

std::string RenderFailure(const FailureReport& report, const TextStyle& style) {
  return TitleBar("WORKER FAILED", report.program, style.columns, style.color) +
         Wrap(FirstSentence(report.first, ""), style.columns) + Fields(report) + LastWords(report) +
         Stack(report.first) + LastLog(report.first) + Joined(report.first.nccl) +
         InterpreterHint(report) + Others(report.others, KeyLine(report.first.last_lines)) +
         "More: ddprun explain worker-failed\n";
}

std::string RenderPeerFailure(const FailureReport& report, int node_rank, const TextStyle& style) {
  const std::string where = " on " + report.host + " (node " + std::to_string(node_rank) + ")";
  return TitleBar("ANOTHER NODE FAILED", report.program, style.columns, style.color) +
         Wrap(FirstSentence(report.first, where), style.columns) + Fields(report) +
         LastWords(report) + Joined(report.first.nccl) +
         "This node's workers were stopped. See that node's output for the whole story.\n"
         "More: ddprun explain another-node-failed\n";
}

std::string RenderAttemptFailure(const WorkerRecord& first, const std::string& host) {
  std::string text = Summarize(first, host) + "\n";
  std::string words = first.error ? Gist(first.error->message) : "";
  if (words.empty()) words = KeyLine(first.last_lines);
  if (!words.empty()) text += "its last words: " + Visible(words, kLastWordsBytes) + "\n";
  text += Joined(first.nccl);
  if (first.out_of_memory) return text + first.out_of_memory->what + "\n";
  if (!first.core_dump.empty()) return text + first.core_dump + "\n";
  return text;
}

}  // namespace ddprun::launcher
