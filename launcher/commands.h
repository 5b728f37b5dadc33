// What ddprun does besides running a job: checking a config, --dry_run, explain.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "launcher/agent/agent_plan.h"
#include "launcher/cli/options.h"
#include "launcher/cli/target.h"
#include "launcher/sweep/sweep_run.h"

namespace ddprun::launcher {

// Runs `ddp-trainer check` for `workers` ranks on each node, with each of `runs` at once (none: the
// config as it is). Returns its exit code, or 128 + n when signal n stopped it; what it says goes
// to stderr. REQUIRES: `target` is a trainer config; no other thread runs.
Result<int> CheckConfig(const Options& options,
                        const Target& target,
                        int workers,
                        const std::vector<SweepRun>& runs);

// For each local rank its command and the variables that ddprun sets. What is only settled at the
// start (ports, folders, ranks under c10d) is shown as <...> or said in a comment.
std::string DryRunText(const AgentPlan& plan, int usable_cores);

// `text` as one word of a POSIX shell.
std::string ShellQuoted(const std::string& text);

// docs/errors.md, which is part of the program.
extern const std::string_view kErrorsPage;

// The section of `page` (Markdown) whose third-level heading is `name`, which may stand behind a
// file's name and '#'. Empty: all names, by second-level heading. Error: no section of this name.
Result<std::string> Explain(std::string_view name, std::string_view page = kErrorsPage);

}  // namespace ddprun::launcher
