#include "launcher/submit/submit.h"

#include <cstdio>
#include <filesystem>
#include <variant>

#include "launcher/cli/options.h"
#include "launcher/cli/target.h"
#include "launcher/submit/job_script.h"
#include "launcher/submit/submit_words.h"
#include "launcher/submit/submitted_job.h"

namespace ddprun::launcher {

namespace {

constexpr const char* kHelp =
    R"(Writes a batch file for SLURM, shows it, and submits it.

Usage: ddprun submit [sbatch's options] [ddprun's options] TARGET [args...]

  ddprun submit --nodes=2 --gpus-per-node=4 --time=4h --partition=gpu train.json
  ddprun submit -N 2 -t 90m -A physics --nproc_per_node=4 train.py --lr 0.1

  --dry_run        show the file; write and submit nothing
  --follow         show the job's states and its output until it ends; the exit
                   status is the job's. Ctrl-C ends this command, not the job.
  --nnodes=N       sbatch's --nodes=N. --nnodes=MIN:MAX is an elastic job: it
                   begins with MAX nodes, and goes on when it loses some
  --time=4h        also 90m, 1d12h, 30s, besides SLURM's forms (90 is minutes)

Options of sbatch go into the file, options of ddprun (ddprun --help) before
TARGET in it. A letter is sbatch's: -t is its time.

The file is runs/slurm/NAME.sbatch and the log runs/slurm/NAME-JOB.out, where
NAME is --job-name or TARGET's name. Without options of yours it asks for one
ddprun on each node, with --requeue=3: a job that has saved and ended before
its last step goes back into the queue (--no-requeue: it does not). A config
also gets SIGUSR1 90 seconds before the time limit, at which ddp-trainer saves
and ends. For a script that saves at a signal, give --signal.
)";

// Checks ddprun's options and TARGET here, before the job waits for hours to fail.
Result<Target> CheckTarget(const SubmitWords& words, const Environment& env) {
  std::vector<std::string> args;
  for (const std::string& word : words.ddprun) {
    if (!word.starts_with("--nnodes=")) args.push_back(word);  // its nodes meet by srun's variables
  }
  // --spares wants several nodes and a back end that replaces them, as the job will have.
  if (const auto spares = ParseInt(ValueAmong(words.ddprun, "spares")); spares && *spares > 0) {
    args.push_back("--nnodes=" + std::to_string(words.Nodes().value_or(*spares + 2) - *spares));
    if (ValueAmong(args, "rdzv_backend").empty()) args.emplace_back("--rdzv_backend=c10d");
  }
  args.emplace_back("--");
  args.insert(args.end(), words.target.begin(), words.target.end());
  DDPRUN_ASSIGN(auto parsed, ParseOptions(args, env));
  const auto& options = std::get<Options>(parsed);  // SplitSubmit() takes --help and its like
  for (const std::string& note : options.notes) {
    std::fputs(("[ddprun] " + note + "\n").c_str(), stderr);
  }
  return ResolveTarget(options, env, ProgramFolder());
}

// Returns "ddprun" if the shell of a job finds this program by its name, else its path. With
// --export the shell may not get this PATH.
std::string ProgramName(const SubmitWords& words, const Environment& env) {
  const std::string own = ProgramFolder() + "/ddprun";
  if (words.HasAny("export") || env.Get("SBATCH_EXPORT")) return own;
  const Result<std::string> found = FindProgram("ddprun", env);
  std::error_code ignored;
  const bool same =
      found && !found->starts_with("./") && std::filesystem::equivalent(*found, own, ignored);
  return same ? "ddprun" : own;
}

void PrintNext(const std::string& id, const std::string& file, bool trainer) {
  std::string text = "submitted job " + id + ": " + file + "\n";
  text += "  squeue -j " + id + "     its state\n";
  if (trainer) {
    text += "  ddprun save " + id + "   a checkpoint now\n";
    text += "  ddprun stop " + id + "   a checkpoint, and then the end\n";
  } else {
    text += "  scontrol show job " + id + "\n  scancel " + id + "       its end\n";
  }
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

Result<int> RunSubmit(const std::vector<std::string>& args, const Environment& env) {
  DDPRUN_ASSIGN(const SubmitWords words, SplitSubmit(args));
  if (words.help) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (words.follow && words.HasAny("array")) {
    return Error{.code = Code::kUsage,
                 .title = "FLAGS CONTRADICT",
                 .where = "--follow",
                 .what = "--follow shows one job, and --array makes several.",
                 .hint = "Leave --follow out, and see the jobs with squeue --me.",
                 .page = "flags-contradict"};
  }
  DDPRUN_ASSIGN(const Target target, CheckTarget(words, env));
  const bool trainer = target.is_trainer_config;
  const std::string text = JobScript(words, ProgramName(words, env), trainer, args);
  if (words.dry_run) {
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  DDPRUN_ASSIGN(const std::string sbatch, FindSlurmProgram("sbatch", env));
  DDPRUN_ASSIGN(const WrittenScript script, WriteScript(JobName(words), text));
  const Result<std::string> id = SubmitScript(script.path, env);
  if (!id) {
    if (id.error().code == Code::kUsage) WithdrawScript(script);
    return id.error();
  }
  std::printf("%s\n", text.c_str());
  PrintNext(*id, script.path, trainer);
  return words.follow ? FollowJob(*id, env) : Result<int>(0);
}

}  // namespace ddprun::launcher
