#include "launcher/top/top.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <utility>

#include "launcher/top/screen.h"
#include "launcher/top/top_text.h"
#include "rendezvous/net/address.h"

namespace ddprun::launcher {

namespace {

constexpr std::chrono::seconds kInterval{1};

constexpr const char* kTopHelp =
    R"(The jobs of this machine, and what each of their ranks does: its step, the collective in
which it waits and since when, CPU and memory. On a terminal the screen is shown anew each
second, and q ends it. The jobs are only looked at.

Usage: ddprun top [JOB] [--once] [--json]

  JOB       the pid of a ddprun, the number of a SLURM job, or the folder of a run; all jobs
            of this machine that you may see if it is left out
  --once    print plain text once, as it is done if standard output is no terminal
  --json    print one JSON document for programs

CPU is the share of a core, of the worker and the processes that it has started: on the screen
that of the last second, else the average since the worker began. MEMORY is the resident memory
of the worker itself.
)";

struct TopOptions {
  std::string job = {};
  bool once = false;
  bool json = false;
  bool help = false;
};

Result<TopOptions> ParseTopOptions(const std::vector<std::string>& args) {
  TopOptions options;
  for (const std::string& arg : args) {
    if (arg == "--once") {
      options.once = true;
    } else if (arg == "--json") {
      options.json = true;
    } else if (arg == "--help" || arg == "-h") {
      options.help = true;
    } else if (options.job.empty() && !arg.starts_with("-")) {
      options.job = arg;
    } else {
      return Error{.code = Code::kUsage,
                   .title = "UNKNOWN FLAG",
                   .where = arg,
                   .what = "ddprun top takes one JOB, --once and --json.",
                   .hint = "See ddprun top --help.",
                   .page = "unknown-flag"};
    }
  }
  return options;
}

// Returns "ddprun top on node7 at 17:02:41, q ends it".
std::string TitleLine() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  std::array<char, 16> time{};
  std::strftime(time.data(), time.size(), "%H:%M:%S", ::localtime_r(&now, &local));
  return "ddprun top on " + rendezvous::HostName() + " at " + time.data() + ", q ends it";
}

Result<int> RunOnScreen(const TopOptions& options, const Environment& env) {
  // A name that is not known is an error before the screen changes.
  DDPRUN_ASSIGN(TopSample before, SampleJobs(options.job));
  const bool bold = env.GetOr("NO_COLOR", "").empty();
  const SignalMask mask;
  std::optional<int> code;
  {
    Screen screen(mask);
    TopSample sample = before;
    while (!code) {
      const TopStyle style{.columns = screen.columns(), .bold = bold, .title = TitleLine()};
      if (!screen.Show(TopText(sample, style))) return 1;
      code = screen.Wait(kInterval);
      auto next = SampleJobs(options.job);
      if (!next) break;
      before = std::exchange(sample, *std::move(next));
      MeasureSince(before.jobs, sample.jobs);
    }
  }
  if (!code) std::printf("job %s has ended\n", options.job.c_str());
  return code.value_or(0);
}

}  // namespace

Result<int> RunTop(const std::vector<std::string>& args, const Environment& env) {
  DDPRUN_ASSIGN(const TopOptions options, ParseTopOptions(args));
  if (options.help) {
    std::fputs(kTopHelp, stdout);
    return 0;
  }
  const bool terminal = ::isatty(STDOUT_FILENO) == 1 && env.GetOr("TERM", "dumb") != "dumb";
  if (terminal && !options.once && !options.json) return RunOnScreen(options, env);
  DDPRUN_ASSIGN(const TopSample sample, SampleJobs(options.job));
  std::fputs((options.json ? TopJson(sample) : TopText(sample, {})).c_str(), stdout);
  return 0;
}

}  // namespace ddprun::launcher
