#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/ddp_trainer/commands.h"
#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/text.h"
#include "trainer/worker/input_files.h"
#include "trainer/worker/predict_saved.h"

namespace ddprun::trainer {

namespace {

struct PredictFlags {
  ModelFlags model;
  std::vector<std::string> files;
  std::string out;
  std::string format = "jsonl";
  bool overwrite = false;
};

void RefuseExisting(const PredictFlags& flags) {
  if (flags.overwrite || !std::filesystem::exists(flags.out)) return;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "OUTPUT FILE EXISTS",
                      .where = flags.out,
                      .what = "There is a file \"" + flags.out + "\" already; it is unchanged.",
                      .hint = "Name another file with --out, or replace it with --overwrite.",
                      .page = "output-file-exists"});
}

int Predict(const PredictFlags& flags, const Environment& environment) {
  if (!flags.out.empty()) RefuseInputAsOutput(flags.files, flags.out);
  SavedJob saved = OpenForUse(flags.model, environment);
  const Mesh mesh = MeetToUse(flags.model, environment, saved);
  std::optional<AtomicFile> file;
  if (!flags.out.empty() && mesh.world.rank == 0) {
    RefuseExisting(flags);
    file.emplace(ValueOrThrow(AtomicFile::Create(flags.out)));
  }
  const PredictionFormat format =
      flags.format == "csv" ? PredictionFormat::kCsv : PredictionFormat::kJsonLines;
  const auto write = [&file](const std::string& text) {
    if (file) return ThrowIfError(file->Write(text));
    ThrowIfError(WriteAll(STDOUT_FILENO, text, "standard output"));
  };
  const int64_t rows = PredictSaved(saved, flags.files, format, mesh, write);
  if (mesh.world.rank > 0) return 0;
  if (file) ThrowIfError(file->Finish());
  std::fprintf(stderr, "%s with %s\n", CountText(rows, "prediction").c_str(),
               NameOf(saved).c_str());
  return 0;
}

}  // namespace

void AddPredictCommand(CLI::App& app, Command& chosen) {
  const auto flags = std::make_shared<PredictFlags>();
  CLI::App* command =
      app.add_subcommand("predict", "Write what a run's model predicts for rows without labels");
  AddModelFlags(*command, flags->model);
  command
      ->add_option("--data", flags->files,
                   "Files or patterns in the format of the training data; labels may be "
                   "absent")
      ->required();
  command->add_option("--out", flags->out,
                      "File for the predictions, which appears when it is whole (default: standard "
                      "output)");
  command->add_option("--format", flags->format, "A line for each row, in their order")
      ->check(CLI::IsMember({"jsonl", "csv"}))
      ->capture_default_str();
  command->add_flag("--overwrite", flags->overwrite, "Replace the file of --out if there is one");
  command->callback([&chosen, flags] {
    chosen = [flags](const Environment& environment) { return Predict(*flags, environment); };
  });
}

}  // namespace ddprun::trainer
