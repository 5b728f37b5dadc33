#include "launcher/top/stack_tools.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/read_file.h"
#include "base/text.h"
#include "launcher/cli/target.h"
#include "launcher/hang/worker_activity.h"
#include "launcher/process/program_output.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;

// gdb needs several seconds for the symbols of LibTorch on a busy machine.
constexpr std::chrono::seconds kPatience{60};

struct StackTool {
  const char* program;
  bool for_python;  // prints lines of Python, and knows no other program
  std::vector<std::string> arguments;
  const char* first;  // a line that begins so is the first of the stacks
};

std::vector<StackTool> ToolsFor(pid_t pid) {
  const std::string number = std::to_string(pid);
  return {
      {"py-spy", true, {"dump", "--pid", number}, "Thread "},
      {"gdb",
       false,
       {"-batch", "-nx", "-q", "-iex", "set debuginfod enabled off", "-p", number, "-ex",
        "thread apply all backtrace 40"},
       "Thread "},
      {"eu-stack", false, {"-p", number}, "TID "},
  };
}

// Returns the words of the process's command line.
std::vector<std::string> ArgumentsOf(pid_t pid) {
  const auto text = ReadIfReadable("/proc/" + std::to_string(pid) + "/cmdline").value_or("");
  std::vector<std::string> words;
  for (const std::string_view word : SplitAt(text, '\0')) words.emplace_back(word);
  return words;
}

bool IsPython(pid_t pid) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
  return program.filename().string().starts_with("python");
}

// Returns the path of the tool; "" means that there is none. A virtual environment has the tool
// beside its Python.
std::string PathOf(const StackTool& tool, pid_t pid, const Environment& env) {
  if (tool.for_python) {
    const fs::path beside = fs::path(ArgumentsOf(pid)[0]).parent_path() / tool.program;
    if (beside.is_absolute() && ::access(beside.c_str(), X_OK) == 0) return beside.string();
  }
  const Result<std::string> found = FindProgram(tool.program, env);
  return found ? *found : "";
}

// Returns the lines from the first one of a stack on; "" if there is none.
std::string StacksIn(const std::string& output, const StackTool& tool) {
  std::string stacks;
  for (const std::string& line : SplitLines(MakePrintable(output))) {
    if (!stacks.empty() || line.starts_with(tool.first)) stacks += line + "\n";
  }
  return stacks;
}

// Returns a line about each thread, by number.
std::string ThreadLines(pid_t pid) {
  std::error_code error;
  std::vector<pid_t> threads;
  const fs::path folder = "/proc/" + std::to_string(pid) + "/task";
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    threads.push_back(static_cast<pid_t>(ParseInt(entry.path().filename().string()).value_or(pid)));
  }
  std::ranges::sort(threads);
  std::string text;
  for (const pid_t thread : threads) {
    const ProcessPlace place = ReadProcessPlace(thread);  // /proc has threads, too
    const std::string comm = "/proc/" + std::to_string(thread) + "/comm";
    const std::string name = ReadIfReadable(comm).value_or("?\n");
    text += "Thread " + std::to_string(thread) + " (" +
            MakePrintable(name.substr(0, name.find('\n'))) + "): state " + place.state +
            (place.where.empty() ? "" : ", in " + place.where) + "\n";
  }
  return text.empty() ? "The process has ended.\n" : text;
}

}  // namespace

std::string ReadStacks(pid_t pid, const Environment& env) {
  const bool python = IsPython(pid);
  const bool stopped = ReadProcessPlace(pid).state == 'T';
  std::string reasons;
  for (const StackTool& tool : ToolsFor(pid)) {
    if (tool.for_python && !python) continue;
    const std::string path = PathOf(tool, pid, env);
    if (path.empty()) {
      reasons += std::string(reasons.empty() ? "" : "; ") + tool.program + " is not installed";
      continue;
    }
    std::vector<std::string> command = {path};
    command.insert(command.end(), tool.arguments.begin(), tool.arguments.end());
    const auto output = RunForOutput(command, env, /*with_stderr=*/true, kPatience);
    // A tool that was killed may leave the process stopped.
    if (!output && !stopped && ReadProcessPlace(pid).state == 'T') ::kill(pid, SIGCONT);
    const std::string stacks = output ? StacksIn(output->text, tool) : "";
    if (!stacks.empty()) return stacks;
    reasons += std::string(reasons.empty() ? "" : "; ") + tool.program + " found no stack";
    if (!output) reasons += " within a minute";
  }
  return ThreadLines(pid) + "No stacks: " + reasons +
         ". Install py-spy for Python, gdb for other programs. If the\nsystem lets a process only "
         "read its descendants, root may: /proc/sys/kernel/yama/ptrace_scope.\n";
}

}  // namespace ddprun::launcher
