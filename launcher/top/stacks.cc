#include "launcher/top/stacks.h"

#include <cstdio>
#include <optional>

#include "base/text.h"
#include "launcher/top/choose_jobs.h"
#include "launcher/top/stack_tools.h"

namespace ddprun::launcher {

namespace {

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
