#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/ddp_trainer/commands.h"
#include "base/failure.h"
#include "base/text.h"
#include "trainer/config/slot.h"
#include "trainer/report/eval_json.h"
#include "trainer/report/format.h"
#include "trainer/worker/evaluate_saved.h"

namespace ddprun::trainer {

namespace {

struct EvaluateFlags {
  ModelFlags model;
  std::vector<std::string> files;
  bool by_class = false;
  bool json = false;
};

// Has the confusion matrix counted beside the metrics of the run.
void AskForClasses(SavedJob& saved) {
  if (saved.job.train->shape().classes == 0) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "NO CLASSES",
                        .where = saved.path,
                        .what = "--by_class compares classes, but this model predicts none.",
                        .hint = "Leave --by_class out.",
                        .page = "no-classes"});
  }
  std::vector<std::string>& metrics = saved.job.config.evaluation.metrics;
  if (metrics.empty()) metrics.emplace_back(Word(Metric::kAccuracy));
  metrics.emplace_back(Word(Metric::kConfusionMatrix));
}

void PrintJson(const SavedJob& saved, const EvalReport& report) {
  nlohmann::ordered_json object = {{saved.step > 0 ? "checkpoint" : "model", saved.path}};
  if (saved.step > 0) object["step"] = saved.step;
  object["samples"] = report.samples;
  object["loss"] = report.loss;
  object.update(MetricsJson(report));
  const std::vector<ClassScores> scores = ScoresByClass(report.confusion);
  for (size_t i = 0; i < scores.size(); ++i) {
    object["classes"][report.confusion.labels[i]] = {{"precision", scores[i].precision},
                                                     {"recall", scores[i].recall},
                                                     {"f1", scores[i].f1},
                                                     {"samples", scores[i].samples}};
  }
  std::puts(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

using Row = std::vector<std::string>;

// Returns the name of a class as one line, because fields of a table may have several.
std::string LineOf(const std::string& label) {
  std::string line = MakePrintable(label);
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return line;
}

// Returns the number of characters, which the bytes 10xxxxxx of UTF-8 continue.
size_t DisplayWidth(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// Prints columns of equal width, the first to the left.
void PrintRows(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  for (const Row& row : rows) {
    std::string line = "  " + row[0] + std::string(widths[0] - DisplayWidth(row[0]), ' ');
    for (size_t i = 1; i < row.size(); ++i) {
      line += "  " + std::string(widths[i] - DisplayWidth(row[i]), ' ') + row[i];
    }
    std::puts(line.c_str());
  }
}

void PrintScores(const ConfusionMatrix& confusion) {
  std::vector<Row> rows = {{"class", "precision", "recall", "f1", "samples"}};
  const std::vector<ClassScores> scores = ScoresByClass(confusion);
  for (size_t i = 0; i < scores.size(); ++i) {
    rows.push_back({LineOf(confusion.labels[i]), LossText(scores[i].precision),
                    LossText(scores[i].recall), LossText(scores[i].f1),
                    std::to_string(scores[i].samples)});
  }
  std::puts("");
  PrintRows(rows);
}

// Many or long names of classes have numbers in their place at the columns.
void PrintPairs(const ConfusionMatrix& confusion) {
  constexpr size_t kWidest = 60;  // of all names
  size_t width = 0;
  for (const std::string& label : confusion.labels) width += DisplayWidth(label) + 2;
  std::vector<Row> rows = {{"actual \\ predicted"}};
  for (size_t actual = 0; actual < confusion.size(); ++actual) {
    const std::string label = LineOf(confusion.labels[actual]);
    const std::string number = std::to_string(actual);
    rows.front().push_back(width > kWidest ? number : label);
    rows.push_back({width > kWidest ? number + " " + label : label});
    for (size_t predicted = 0; predicted < confusion.size(); ++predicted) {
      rows.back().push_back(std::to_string(confusion.At(actual, predicted)));
    }
  }
  std::puts("");
  PrintRows(rows);
}

void PrintTable(const SavedJob& saved, const EvalReport& report) {
  std::printf("%s, %s\n", NameOf(saved).c_str(), CountText(report.samples, "sample").c_str());
  std::printf("  %-16s %s\n", "loss", LossText(report.loss).c_str());
  for (const auto& [name, value] : report.metrics) {
    std::printf("  %-16s %s\n", name.c_str(), LossText(value).c_str());
  }
  if (report.confusion.size() > 0) {
    PrintScores(report.confusion);
    PrintPairs(report.confusion);
  }
}

int Evaluate(const EvaluateFlags& flags, const Environment& environment) {
  SavedJob saved = OpenForUse(flags.model, environment);
  if (flags.by_class) AskForClasses(saved);
  const Mesh mesh = MeetToUse(flags.model, environment, saved);
  const SavedEvaluation found = EvaluateSaved(saved, flags.files, mesh);
  if (mesh.world.rank > 0) return 0;
  for (const std::string& note : found.notes) std::fprintf(stderr, "warning: %s\n", note.c_str());
  if (flags.by_class && found.report.confusion.size() == 0) {
    std::fprintf(stderr, "warning: --by_class compares up to 1000 classes; this model has more\n");
  }
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
  command->add_flag("--by_class", flags->by_class,
                    "For models of classes: precision, recall and F1 of each class, and how often "
                    "each was taken for another");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([&chosen, flags] {
    chosen = [flags](const Environment& environment) { return Evaluate(*flags, environment); };
  });
}

}  // namespace ddprun::trainer
