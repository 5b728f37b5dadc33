#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/ddp_trainer/commands.h"
#include "base/text.h"
#include "trainer/report/format.h"
#include "trainer/worker/evaluate_saved.h"

namespace ddprun::trainer {

namespace {

struct EvaluateFlags {
  ModelFlags model;
  std::vector<std::string> files;
  bool json = false;
};

void PrintJson(const SavedJob& saved, const EvalReport& report) {
  nlohmann::ordered_json object = {{saved.step > 0 ? "checkpoint" : "model", saved.path}};
  if (saved.step > 0) object["step"] = saved.step;
  object["samples"] = report.samples;
  object["loss"] = report.loss;
  for (const auto& [name, value] : report.metrics) object[name] = value;
  std::puts(object.dump().c_str());
}

void PrintTable(const SavedJob& saved, const EvalReport& report) {
  std::printf("%s, %s\n", NameOf(saved).c_str(), CountText(report.samples, "sample").c_str());
  std::printf("  %-16s %s\n", "loss", LossText(report.loss).c_str());
  for (const auto& [name, value] : report.metrics) {
    std::printf("  %-16s %s\n", name.c_str(), LossText(value).c_str());
  }
}

int Evaluate(const EvaluateFlags& flags, const Environment& environment) {
  const SavedJob saved = OpenForUse(flags.model, environment);
  const SavedEvaluation found = EvaluateSaved(saved, flags.files);
  for (const std::string& note : found.notes) std::fprintf(stderr, "warning: %s\n", note.c_str());
  (flags.json ? PrintJson : PrintTable)(saved, found.report);
  return 0;
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, Command& chosen) {
  const auto flags = std::make_shared<EvaluateFlags>();
  CLI::App* command = app.add_subcommand(
      "evaluate", "Compute the loss and the metrics of a run's model on other files");
  AddModelFlags(*command, flags->model);
  command
      ->add_option("--data", flags->files, "Files or patterns in the format of the training data")
      ->required();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([&chosen, flags] {
    chosen = [flags](const Environment& environment) { return Evaluate(*flags, environment); };
  });
}

}  // namespace ddprun::trainer
