#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/ddp_trainer/commands.h"
#include "base/text.h"
#include "trainer/report/format.h"
#include "trainer/worker/evaluate_checkpoint.h"

namespace ddprun::trainer {

namespace {

struct EvaluateFlags {
  std::string path;
  std::vector<std::string> files;
  bool json = false;
};

void PrintJson(const Checkpoint& checkpoint, const EvalReport& report) {
  nlohmann::ordered_json object = {{"checkpoint", checkpoint.path()},
                                   {"step", report.step},
                                   {"samples", report.samples},
                                   {"loss", report.loss}};
  for (const auto& [name, value] : report.metrics) object[name] = value;
  std::puts(object.dump().c_str());
}

void PrintTable(const Checkpoint& checkpoint, const EvalReport& report) {
  std::printf("step %lld of %s, %s\n", static_cast<long long>(report.step),
              checkpoint.path().c_str(), CountText(report.samples, "sample").c_str());
  std::printf("  %-16s %s\n", "loss", LossText(report.loss).c_str());
  for (const auto& [name, value] : report.metrics) {
    std::printf("  %-16s %s\n", name.c_str(), LossText(value).c_str());
  }
}

int Evaluate(const EvaluateFlags& flags, const Environment& environment) {
  const Checkpoint checkpoint = OpenNamed(flags.path);
  const CheckpointEvaluation found = EvaluateCheckpoint(checkpoint, flags.files, environment);
  for (const std::string& note : found.notes) std::fprintf(stderr, "warning: %s\n", note.c_str());
  (flags.json ? PrintJson : PrintTable)(checkpoint, found.report);
  return 0;
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, Command& chosen) {
  const auto flags = std::make_shared<EvaluateFlags>();
  CLI::App* command = app.add_subcommand(
      "evaluate", "Compute the loss and the metrics of a run's model on other files");
  command
      ->add_option("path", flags->path,
                   "A run folder, its folder of checkpoints, or one of them (default: the newest)")
      ->required();
  command
      ->add_option("--data", flags->files,
                   "Files or patterns in the format of the run's training data")
      ->required();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([&chosen, flags] {
    chosen = [flags](const Environment& environment) { return Evaluate(*flags, environment); };
  });
}

}  // namespace ddprun::trainer
