#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/read_file.h"
#include "base/text.h"
#include "launcher/cli/target.h"
#include "launcher/process/program_output.h"
#include "launcher/top/top.h"
#include "launcher/top/top_text.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;

constexpr const char* kStacksHelp =
    R"(The stacks of the ranks of a job on this machine, and what each rank does. The job goes on:
each rank stands still only while its stacks are read, which may take some seconds.

Usage: ddprun stacks JOB [--rank=N]

  JOB        the pid of a ddprun, the number of a SLURM job, or the folder of a run
  --rank=N   only this rank

py-spy reads the stacks of a Python program, gdb or eu-stack those of other programs. They have
to be installed. Without them the states of the threads are printed.
)";

constexpr std::string_view kRankFlag = "--rank=";

Error BadStacksArguments(const std::string& where) {
  return {.code = Code::kUsage,
          .title = "BAD VALUE",
          .where = where.empty() ? "ddprun stacks" : where,
          .what = "Expected one JOB and, if only one rank is asked for, --rank=N.",
          .hint = "See ddprun stacks --help. `ddprun top` shows the jobs of this machine.",
          .page = "bad-value"};
}

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

bool IsPython(pid_t pid) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
  return program.filename().string().starts_with("python");
}

// Returns the lines from the first one of a stack on; "" if there is none.
std::string StacksIn(const std::string& output, const StackTool& tool) {
  std::string stacks;
  for (const std::string& line : SplitLines(MakePrintable(output))) {
    if (line.starts_with("[Inferior ")) continue;  // gdb's last word
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

// Returns the stacks of all threads of the process. If no tool is there or may read the process,
// returns a line about each thread from /proc and says why.
std::string ReadStacks(pid_t pid, const Environment& env) {
  const bool python = IsPython(pid);
  const bool stopped = ReadProcessPlace(pid).state == 'T';
  std::string reasons;
  for (const StackTool& tool : ToolsFor(pid)) {
    if (tool.for_python && !python) continue;
    // Only from this user's PATH, because root may look at programs of users.
    const Result<std::string> path = FindProgram(tool.program, env);
    reasons += std::string(reasons.empty() ? "" : "; ") + tool.program;
    if (!path) {
      reasons += " is not installed";
      continue;
    }
    std::vector<std::string> command = {*path};
    command.insert(command.end(), tool.arguments.begin(), tool.arguments.end());
    const auto output = RunForOutput(command, env, /*with_stderr=*/true, kPatience);
    // A tool that was killed may leave the process stopped.
    if (!output && !stopped && ReadProcessPlace(pid).state == 'T') ::kill(pid, SIGCONT);
    const std::string stacks = output ? StacksIn(output->text, tool) : "";
    if (!stacks.empty()) return stacks;
    reasons += output ? " found no stack" : " found no stack within a minute";
  }
  return ThreadLines(pid) + "No stacks: " + reasons +
         ". Install py-spy for Python, gdb for other programs. If the\nsystem lets a process only "
         "read its descendants, root may: /proc/sys/kernel/yama/ptrace_scope.\n";
}

}  // namespace

Result<int> RunStacks(const std::vector<std::string>& args, const Environment& env) {
  std::string job;
  std::optional<int64_t> rank;
  for (const std::string& arg : args) {
    if (arg == "--help" || arg == "-h") {
      std::fputs(kStacksHelp, stdout);
      return 0;
    }
    if (arg.starts_with(kRankFlag)) {
      rank = ParseInt(arg.substr(kRankFlag.size()));
      if (!rank) return BadStacksArguments(arg);
    } else if (job.empty() && !arg.starts_with("-")) {
      job = arg;
    } else {
      return BadStacksArguments(arg);
    }
  }
  if (job.empty()) return BadStacksArguments("");
  DDPRUN_ASSIGN(const TopSample sample, SampleJobs(job));
  bool found = false;
  for (const JobSample& of : sample.jobs) {
    for (const RankSample& one : of.ranks) {
      if (one.worker.pid == 0 || (rank && one.worker.rank != *rank)) continue;
      found = true;
      const std::string title =
          one.worker.rank < 0 ? "RANK ?" : "RANK " + std::to_string(one.worker.rank);
      std::printf("%s%s\n",
                  TitleBar(title, "pid " + std::to_string(one.worker.pid), 92,
                           /*color=*/false)
                      .c_str(),
                  DoingText(one, of.now).c_str());
      std::fflush(stdout);  // each rank takes a while
      std::fputs(ReadStacks(one.worker.pid, env).c_str(), stdout);
    }
  }
  if (found) return 0;
  return Error{.code = Code::kUsage,
               .title = "NO SUCH RANK",
               .where = job,
               .what = rank ? "No worker of rank " + std::to_string(*rank) + " runs here."
                            : "The job has no workers here now.",
               .hint = "See ddprun top " + job + ".",
               .page = "no-such-job"};
}

}  // namespace ddprun::launcher
