// ddp-trainer: the worker that trains by a JSON config.
#include <ATen/Parallel.h>
#include <torch/version.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/ddp_trainer/commands.h"
#include "base/env.h"
#include "base/failure.h"
#include "base/last_words.h"
#include "base/terminal.h"
#include "trainer/comm/bootstrap.h"
#include "trainer/config/config_text.h"
#include "trainer/job/estimate_memory.h"
#include "trainer/job/job.h"
#include "trainer/job/open_job.h"
#include "trainer/job/plan_job.h"
#include "trainer/worker/run_worker.h"
#include "trainer/worker/template_server.h"

namespace {

using ddprun::Environment;
using ddprun::trainer::Job;

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
  bool as_template = false;
};

// Called by exit(), which this program does not use; see End(). Without this, a plugin or a library
// that calls exit(0) would end a rank as if it had trained.
void OnExit(int status, void*) {
  const ddprun::Error error{.title = "EXIT WAS CALLED",
                            .what = "A plugin, or a library that it uses, called exit(" +
                                    std::to_string(status) + ") before training had ended.",
                            .hint = "Throw an exception instead: its text is then reported.",
                            .page = "exit-was-called"};
  const int failed = ddprun::ReportFailure(error, Environment::OfProcess());
  _exit(status == 0 ? failed : status);
}

// Opens data and plugin in the process from which workers are forked. Uses one thread, because a
// forked process has no others and would wait for LibTorch's thread pool for ever.
Job OpenWithoutThreads(const Arguments& arguments, const Environment& environment) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  Job job = ddprun::trainer::OpenJob(arguments.config, arguments.overrides, environment);
  at::set_num_threads(threads);
  return job;
}

int Train(const Arguments& arguments, const Environment& environment) {
  // Training goes on if the reader of its output has ended.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // beyond `ulimit -f` there is then an error with a message
  ddprun::PrintStackOnCrash();
  ddprun::ReportUncaughtExceptions();
  on_exit(OnExit, nullptr);
  const Job job = OpenWithoutThreads(arguments, environment);
  if (!arguments.as_template) return ddprun::trainer::RunWorker(job, environment);
  const int64_t fd = ddprun::ValueOrThrow(environment.GetInt("DDPRUN_TEMPLATE_FD", -1, 0, 1 << 20));
  if (fd < 0) {
    throw ddprun::Failure({.code = ddprun::Code::kUsage,
                           .title = "NOT STARTED BY DDPRUN",
                           .where = "--template",
                           .what = "DDPRUN_TEMPLATE_FD is not set: --template is how ddprun starts "
                                   "this program.",
                           .hint = "Start training with: ddprun " + arguments.config,
                           .page = "not-started-by-ddprun"});
  }
  const ddprun::trainer::TemplateCallbacks callbacks{
      .check =
          [&job](const Environment& worker) {
            const auto rank = ddprun::ValueOrThrow(ddprun::trainer::ReadRankInfo(worker));
            // A replacement needs as much as the rank that it replaces, which was checked.
            if (ddprun::trainer::FirstGeneration(worker) > 0) return;
            ddprun::trainer::PlanFor(job, rank.world_size);
            ddprun::trainer::CheckNeeds(job, rank);
          },
      .run = [&job](const Environment& worker) { return ddprun::trainer::RunWorker(job, worker); }};
  return ddprun::trainer::ServeTemplate(ddprun::UniqueFd(static_cast<int>(fd)), environment,
                                        callbacks);
}

// Returns the exit code of a command. Throws Failure if what it has printed is lost. Not for
// training, which goes on without its output.
int Printed(int status) {
  if (status == 0) ddprun::ThrowIfError(ddprun::FlushStandardOutput());
  return status;
}

// Returns whether `word` is neither a file nor a command. Then prints the commands.
bool IsNoCommand(const CLI::App& app, const std::string& word) {
  if (word.empty() || word.find_first_of("-./") != std::string::npos) return false;
  if (access(word.c_str(), F_OK) == 0) return false;
  std::string names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == word) return false;
    names += " " + command->get_name();
  }
  std::fprintf(stderr,
               "ddp-trainer: there is no command %s, and no config file of that name.\n"
               "The commands are:%s. See ddp-trainer --help.\n",
               word.c_str(), names.c_str());
  return true;
}

int Run(int argc, char** argv, const Environment& environment) {
  CLI::App app(
      "Trains what a JSON config describes, as the rank that the environment names.\n"
      "ddprun starts it: ddprun --nproc_per_node=2 train.json");
  app.set_version_flag("--version", "ddp-trainer " DDPRUN_VERSION "\nLibTorch " TORCH_VERSION);
  Arguments arguments;
  app.add_option("config", arguments.config, "JSON config file (docs/config.md)");
  app.add_option("--set", arguments.overrides, "Override a key: --set optimizer.learning_rate=1e-4")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);  // the config may follow
  app.add_flag("--template", arguments.as_template, "Serve ddprun's requests to fork workers");
  CLI::App* schema = app.add_subcommand("schema", "Print the JSON Schema of config files");
  CLI::App* doc =
      app.add_subcommand("config-doc", "Print docs/config.md, or what it says of a key");
  std::string key;
  doc->add_option("key", key, "section.key, or what another tool calls it");
  ddprun::trainer::Command chosen;
  for (const auto add : {ddprun::trainer::AddCheckCommand, ddprun::trainer::AddPlanCommand,
                         ddprun::trainer::AddCheckpointCommand, ddprun::trainer::AddDiffCommand,
                         ddprun::trainer::AddReportCommand, ddprun::trainer::AddTokenizeCommand,
                         ddprun::trainer::AddGenerateCommand, ddprun::trainer::AddEvaluateCommand,
                         ddprun::trainer::AddPredictCommand}) {
    add(app, chosen);
  }
  if (argc > 1 && IsNoCommand(app, argv[1])) return 2;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? Printed(0) : 2;
  }
  if (schema->parsed()) {
    std::fputs(ddprun::trainer::WriteSchema().c_str(), stdout);
    return Printed(0);
  }
  if (doc->parsed()) {
    const std::string text =
        key.empty() ? ddprun::trainer::WriteConfigDoc() : ddprun::trainer::ExplainKey(key);
    std::fputs(text.c_str(), stdout);
    if (!text.empty()) return Printed(0);
    std::fprintf(stderr, "ddp-trainer: no key of a config is called %s (see docs/config.md)\n",
                 key.c_str());
    return 2;
  }
  if (chosen) return Printed(chosen(environment));
  if (arguments.config.empty()) {
    std::fputs("ddp-trainer: name a config file (see --help)\n", stderr);
    return 2;
  }
  return Train(arguments, environment);
}

}  // namespace

// Ends without the destructors of LibTorch's static objects. They would remove each operator from
// its tables, which takes 60 ms and copies pages that ranks share.
[[noreturn]] void End(int status) {
  std::fflush(nullptr);
  _exit(status);
}

int main(int argc, char** argv) {
  const Environment environment = Environment::OfProcess();
  try {
    End(Run(argc, argv, environment));
  } catch (...) {
    End(ddprun::ReportFailure(ddprun::CurrentError(), environment));
  }
}
