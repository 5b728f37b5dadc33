#include "launcher/submit/submitted_job.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "base/text.h"
#include "launcher/batch/slurm_command.h"
#include "launcher/cli/target.h"
#include "launcher/process/program_output.h"

namespace ddprun::launcher {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{60'000};  // with a busy slurmctld
constexpr milliseconds kBetweenReads{500};
constexpr milliseconds kLongestPause{5'000};  // between two questions to slurmctld

// Words of sbatch's errors, and what to do.
constexpr std::array<std::pair<std::string_view, const char*>, 6> kAnswers = {{
    {"invalid partition", "The command sinfo -s lists the partitions: give one with --partition."},
    {"Invalid account", "The command sacctmgr show associations user=$USER lists your accounts."},
    {"Invalid qos", "The command sacctmgr show qos lists them: give one with --qos."},
    {"time limit", "The command sinfo -o '%P %l' shows the limits: give less with --time."},
    {"node configuration is not available",
     "The command sinfo -N -l shows what nodes have: ask for less, or for another partition."},
    {"Unable to contact slurm controller",
     "The command scontrol ping shows whether SLURM answers: try again, or ask who runs it."},
}};

Error Refused(const std::string& text) {
  std::string said = text;
  constexpr std::string_view kPrefix = "sbatch: error: ";
  for (size_t at = 0; (at = said.find(kPrefix, at)) != said.npos;) said.erase(at, kPrefix.size());
  std::string hint = "Correct the option and submit again; man sbatch explains it.";
  for (const auto& [words, answer] : kAnswers) {
    if (ToAsciiLower(said).find(ToAsciiLower(words)) != said.npos) hint = answer;
  }
  said = MakePrintable(said.substr(0, said.find_last_not_of('\n') + 1));
  return Error{.code = Code::kUsage,
               .title = "SBATCH REFUSES THE JOB",
               .where = "sbatch",
               .what = "Nothing was submitted. sbatch says:\n" + said,
               .hint = std::move(hint),
               .page = "sbatch-refused"};
}

bool HasEnded(const std::string& state) {
  constexpr std::array<std::string_view, 9> kEnds = {
      "COMPLETED", "FAILED",        "CANCELLED", "TIMEOUT",  "NODE_FAIL",
      "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE",
  };
  return std::ranges::find(kEnds, state) != kEnds.end();
}

// Returns the exit code of a job that has ended. ExitCode is CODE:SIGNAL.
int CodeOf(const std::string& state, const std::string& code_and_signal) {
  const size_t colon = code_and_signal.find(':');
  const auto code = ParseInt(code_and_signal.substr(0, colon)).value_or(1);
  if (code != 0) return static_cast<int>(code);
  const auto signal =
      colon == std::string::npos ? 0 : ParseInt(code_and_signal.substr(colon + 1)).value_or(0);
  if (signal != 0) return static_cast<int>(128 + signal);
  return state == "COMPLETED" ? 0 : 1;
}

// Prints what a file has got since the last call.
class GrowingFile {
 public:
  void Print(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file.seekg(printed_)) return;
    std::array<char, 65536> buffer;
    while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0) {
      std::fwrite(buffer.data(), 1, static_cast<size_t>(file.gcount()), stdout);
      printed_ += file.gcount();
    }
    std::fflush(stdout);
  }

 private:
  std::streamoff printed_ = 0;
};

}  // namespace

Result<std::string> FindSlurmProgram(const std::string& name, const Environment& env) {
  Result<std::string> found = FindProgram(name, env);
  if (found) return found;
  return Error{.code = Code::kNotFound,
               .title = "NO SLURM HERE",
               .where = name,
               .what = "There is no program " + name + " in PATH.",
               .hint =
                   "Log in to a machine from which jobs are submitted, or load SLURM's module "
                   "(module load slurm).\nWithout SLURM, ddprun TARGET trains on this machine.",
               .page = "no-slurm"};
}

Result<std::string> SubmitScript(const std::string& path, const Environment& env) {
  DDPRUN_ASSIGN(const std::string sbatch, FindSlurmProgram("sbatch", env));
  const auto output =
      RunForOutput({sbatch, "--parsable", path}, env, /*with_stderr=*/true, kPatience);
  if (!output) {
    return Error{.code = Code::kDeadlineExceeded,
                 .title = "SBATCH DOES NOT ANSWER",
                 .where = "sbatch",
                 .what = "sbatch " + path + " has not ended within a minute.",
                 .hint = "See with squeue --me whether the job is there, before you submit again.",
                 .page = "sbatch-refused"};
  }
  std::string id;
  for (const std::string& line : SplitLines(output->text)) {  // also warnings
    const std::string number = line.substr(0, line.find(';'));
    if (ParseInt(number)) {
      id = number;
    } else if (output->status == 0) {
      std::fputs((MakePrintable(line) + "\n").c_str(), stderr);
    }
  }
  if (output->status != 0 || id.empty()) return Refused(output->text);
  return id;
}

Result<int> FollowJob(const std::string& id, const Environment& env) {
  DDPRUN_ASSIGN(const std::string scontrol, FindSlurmProgram("scontrol", env));
  GrowingFile log;
  std::string path;
  std::string shown;
  milliseconds pause{1'000};
  while (true) {
    const auto output = RunForOutput({scontrol, "-o", "show", "job", id}, env,
                                     /*with_stderr=*/true, kPatience);
    const std::string state = output ? ReadJobField("JobState", output->text) : "";
    if (state.empty() && output && output->text.find("Invalid job id") != std::string::npos) {
      return Error{.title = "JOB IS GONE",
                   .where = "job " + id,
                   .what = "SLURM has forgotten the job before its end was seen.",
                   .hint = "Its log has the end; sacct -j " + id + " may have its exit code.",
                   .page = "no-slurm"};
    }
    if (!state.empty()) path = ReadJobField("StdOut", output->text);
    const std::string reason = state == "PENDING" ? ReadJobField("Reason", output->text) : "";
    const std::string line =
        "[ddprun] job " + id + ": " + (state.empty() ? "SLURM does not answer" : state) +
        (reason.empty() || reason == "None" ? "" : ", waits because of " + reason) + "\n";
    if (line != shown) std::fputs(line.c_str(), stderr);
    shown = line;
    if (HasEnded(state)) {
      log.Print(path);
      return CodeOf(state, ReadJobField("ExitCode", output->text));
    }
    for (milliseconds slept{0}; slept < pause; slept += kBetweenReads) {
      log.Print(path);
      std::this_thread::sleep_for(kBetweenReads);
    }
    pause = std::min(pause + milliseconds(250), kLongestPause);
  }
}

}  // namespace ddprun::launcher
