#include "launcher/commands.h"

#include <array>
#include <cstdio>
#include <utility>
#include <variant>

#include "base/log.h"
#include "launcher/batch/batch_job.h"
#include "launcher/cluster/cluster.h"
#include "launcher/doctor/doctor.h"
#include "launcher/hosts/hosts.h"
#include "launcher/requests/request_command.h"
#include "launcher/store/store_command.h"
#include "launcher/submit/submit.h"
#include "launcher/top/top.h"

namespace ddprun::launcher {

namespace {

constexpr std::array<Subcommand, 10> kSubcommands = {{
    {"doctor", "[--gpu] [--nodes] [--json]", "what this machine can do, and what is missing",
     RunDoctor},
    {"store", "[options]", "a store on its own, see ddprun store --help", RunStoreCommand},
    {"submit", "[options] TARGET", "a job for SLURM, see ddprun submit --help", RunSubmit},
    {"save", "JOB", "ask a running run for a checkpoint", RunSave},
    {"stop", "JOB", "ask a running run to save and to end", RunStop},
    {"top", "[JOB] [--json]", "the jobs of this machine, and what their ranks do", RunTop},
    {"stacks", "JOB [--rank=N]", "the stacks of a running job's ranks", RunStacks},
    {"token", "", "a new secret for the nodes of a job", RunToken},
    {"explain", "NAME", "what a message, or a key of a config, means", RunExplain},
    {"on_host", "", "what --hostfile starts on each host", RunOnHost},
}};

}  // namespace

std::span<const Subcommand> AllSubcommands() {
  return kSubcommands;
}

Result<int> RunCommandLine(const std::vector<std::string>& args,
                           const Environment& env,
                           std::span<const Subcommand> subcommands,
                           RunOptions run) {
  if (!args.empty() && args.front() == "help") {
    std::vector<std::string> asked(args.begin() + 1, args.end());
    asked.emplace_back("--help");
    return RunCommandLine(asked, env, subcommands, run);
  }
  for (const Subcommand& command : subcommands) {
    if (args.empty() || args.front() != command.name) continue;
    return command.run({args.begin() + 1, args.end()}, env);
  }
  DDPRUN_ASSIGN(const std::optional<int> code, StartHosts(args, env, CheckTarget));
  if (code) return *code;
  DDPRUN_ASSIGN(auto parsed, ParseOptions(args, env, subcommands, CompleteOptions));
  if (const auto* text = std::get_if<TextToPrint>(&parsed)) {
    std::fputs(text->text.c_str(), stdout);
    return 0;
  }
  if (std::holds_alternative<VersionsToPrint>(parsed)) {
    std::fputs(VersionsText(env).c_str(), stdout);
    return 0;
  }
  Options& options = std::get<Options>(parsed);
  const Log log =
      Log::ToStderr({.name = "ddprun", .level = options.log_level, .time = options.log_time});
  for (const std::string& line : options.notes) log.Info(line);
  return RunInBatchJob(std::move(options), env, run);
}

}  // namespace ddprun::launcher
