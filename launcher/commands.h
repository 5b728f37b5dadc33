// The work of ddprun besides running one job: its subcommands, --dry_run, --sweep, --version.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "launcher/cli/options.h"
#include "launcher/cli/target.h"
#include "launcher/sweep/sweep_plan.h"

namespace ddprun::launcher {

// Returns the subcommands of ddprun: a new one is a row of this table.
std::span<const Subcommand> AllSubcommands();

// Runs one `ddp-trainer check` for all `runs` (none means the plain config), with `workers` ranks
// on each node and its output on stderr. Returns its exit code, or 128 + n if signal n stopped it.
// REQUIRES: `target` is a trainer config; no other thread runs.
Result<int> CheckConfig(const Options& options,
                        const Target& target,
                        int workers,
                        const std::vector<SweepRun>& runs);

// Calls CheckConfig() for the target of `options`, with all runs of --sweep. Returns its exit code;
// 0 if the target is no trainer config.
Result<int> CheckTarget(const Options& options, const Environment& env);

using RunOptions = Result<int> (*)(Options options, const Environment& env);
// Runs what a command line asks for: a subcommand, the text of --help or --version, or `run` with
// the options of a job. Returns the exit code.
Result<int> RunCommandLine(const std::vector<std::string>& args,
                           const Environment& env,
                           std::span<const Subcommand> subcommands,
                           RunOptions run);

// --dry_run: prints each local rank's command and the variables that ddprun sets. Values that are
// known only after the start (ports, folders, ranks under c10d) are <...> or stand in a comment.
// Checks a trainer config first. With --sweep, checks all runs and prints the first.
Result<int> DryRun(Options options, const Environment& env);

// --sweep: calls RunSweep(). `run` does one run and returns its exit code.
using RunFunction = Result<int> (*)(Options options, const Environment& env);
Result<int> SweepConfig(Options options, const Environment& env, RunFunction run);

// docs/errors.md, compiled into the program.
extern const std::string_view kErrorsPage;

// Returns the section of `page` (Markdown) with the third-level heading `name`, which may follow a
// file's name and "#"; an Error if there is none. "" returns all names by second-level heading.
Result<std::string> Explain(std::string_view name, std::string_view page = kErrorsPage);

// `ddprun explain NAME`: prints what a message, or a key of a config, means.
Result<int> RunExplain(const std::vector<std::string>& args, const Environment& env);

// `ddprun token`: prints a new token for DDPRUN_TOKEN.
Result<int> RunToken(const std::vector<std::string>& args, const Environment& env);

// Returns the lines of --version: ddprun, torchrun, whose command line it follows, the compiler,
// and what the ddp-trainer says that trainer configs would run with, which takes at most two
// seconds.
std::string VersionsText(const Environment& env);

}  // namespace ddprun::launcher
