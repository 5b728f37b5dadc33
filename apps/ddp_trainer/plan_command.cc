#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/ddp_trainer/commands.h"
#include "base/failure.h"
#include "trainer/config/read_config.h"
#include "trainer/job/open_job.h"
#include "trainer/job/strategy_plan.h"

namespace ddprun::trainer {

namespace {

struct PlanFlags {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 1;
  int nodes = 1;
  bool json = false;
};

int Plan(const PlanFlags& flags, const Environment& environment) {
  const auto read = [&](const std::vector<std::string>& keys) {
    std::vector<std::string> overrides = flags.overrides;
    overrides.insert(overrides.end(), keys.begin(), keys.end());
    return ValueOrThrow(ReadConfig(flags.config, overrides, environment));
  };
  const StrategyPlan plan =
      PlanStrategies(OpenJob(flags.config, flags.overrides, environment), read,
                     {.world_size = flags.ranks * flags.nodes, .local_world_size = flags.ranks},
                     ReadMemoryLimit());
  std::fputs((flags.json ? PlanJson(plan) : PlanText(plan)).c_str(), stdout);
  return 0;
}

}  // namespace

void AddPlanCommand(CLI::App& app, Command& chosen) {
  const auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = app.add_subcommand(
      "plan", "Say what each strategy would take and send, and which one to take");
  command->add_option("config", flags->config, "JSON config file")->required();
  command->add_option("--set", flags->overrides, "Override a key: --set run.seed=1")
      ->expected(1)
      ->take_all();
  command->add_option("--nproc_per_node", flags->ranks, "Ranks on each machine")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--nnodes", flags->nodes, "Machines, all like this one")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "For programs");
  command->callback([&chosen, flags] {
    chosen = [flags](const Environment& environment) { return Plan(*flags, environment); };
  });
}

}  // namespace ddprun::trainer
