#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/ddp_trainer/commands.h"
#include "base/failure.h"
#include "base/read_file.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/report/format.h"
#include "trainer/report/run_folder.h"
#include "trainer/worker/best_checkpoint.h"
#include "trainer/worker/export_checkpoint.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;

struct CheckpointFlags {
  std::string path;
  std::string to;
  bool all = false;
};

bool IsCheckpoint(const std::string& path) {
  return fs::exists(fs::path(path) / "COMMIT") || fs::exists(fs::path(path) / "index.json");
}

// Returns the checkpoints of a run folder, a folder of checkpoints, or one. Throws if none.
std::vector<StoredCheckpoint> Find(const std::string& path) {
  if (IsCheckpoint(path)) return {{.path = path}};
  std::vector<StoredCheckpoint> found = ValueOrThrow(ListCheckpoints(CheckpointsOf(path)));
  if (!found.empty()) return found;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "NO CHECKPOINTS",
                      .where = path,
                      .what = "\"" + path + "\" is no checkpoint, and there are none in \"" +
                              CheckpointsOf(path) + "\".",
                      .hint = "Name a run folder (runs/NAME), its folder of checkpoints, or one "
                              "of them.",
                      .page = "no-checkpoints"});
}

// Returns the time of the commit: "2026-11-22 15:40".
std::string SaveTimeText(const std::string& path) {
  struct stat status = {};
  if (::stat((path + "/COMMIT").c_str(), &status) != 0) return "?";
  std::tm local = {};
  ::localtime_r(&status.st_mtime, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &local);
  return text.data();
}

std::string ErrorLine(const Error& error) {
  std::string text = error.what;
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string SizeText(const Checkpoint& checkpoint) {
  return ByteText(static_cast<double>(checkpoint.bytes()));
}

// Returns the config of the run in a folder; a discarded value if there is none.
nlohmann::json ResolvedConfigOf(const fs::path& run) {
  const std::optional<std::string> text = ReadIfReadable(run / kResolvedConfig);
  return nlohmann::json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
}

// Returns the name of the run's score by its config, such as "accuracy"; "score" if it is unknown.
std::string ScoreTitle(const std::string& path) {
  for (const fs::path& folder : {fs::path(path), fs::path(path) / "..", fs::path(path) / "../.."}) {
    const nlohmann::json config = ResolvedConfigOf(folder);
    const nlohmann::json::json_pointer key("/checkpoint/save_best");
    if (!config.is_object() || !config.contains(key) || !config[key].is_string()) continue;
    const auto name = config[key].get<std::string>();
    return name.empty() ? "score" : name;
  }
  return "score";
}

int List(const CheckpointFlags& flags, const Environment&) {
  const std::vector<StoredCheckpoint> found = Find(flags.path);
  int status = 0;
  std::printf("%10s  %-10s  %-16s  %-10s  %s\n", "step", "size", "saved",
              ScoreTitle(flags.path).c_str(), "path");
  for (const StoredCheckpoint& stored : found) {
    const auto checkpoint = Checkpoint::Open(stored.path, Verify::kSizes);
    if (!checkpoint) {
      status = 1;
      std::printf("%10s  %s\n", "?", ErrorLine(checkpoint.error()).c_str());
      continue;
    }
    const auto score = checkpoint->score();
    std::printf("%10lld  %-10s  %-16s  %-10s  %s\n", static_cast<long long>(checkpoint->step()),
                SizeText(*checkpoint).c_str(), SaveTimeText(stored.path).c_str(),
                score ? LossText(*score).c_str() : "-", stored.path.c_str());
  }
  return status;
}

int VerifyAll(const CheckpointFlags& flags, const Environment&) {
  int status = 0;
  for (const StoredCheckpoint& stored : Find(flags.path)) {
    const auto checkpoint = Checkpoint::Open(stored.path);
    if (checkpoint) {
      std::printf("good     %s: step %lld, %zu tensors, %s\n", stored.path.c_str(),
                  static_cast<long long>(checkpoint->step()), checkpoint->tensors().size(),
                  SizeText(*checkpoint).c_str());
    } else {
      status = 1;
      std::printf("damaged  %s: %s\n", stored.path.c_str(), ErrorLine(checkpoint.error()).c_str());
    }
  }
  return status;
}

// Export replaces an existing file, but not a file of a checkpoint.
void RefuseFileOfCheckpoint(const std::string& to) {
  if (!IsCheckpoint(fs::absolute(to).parent_path().string())) return;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "NOT REPLACED",
                      .where = to,
                      .what = "\"" + to + "\" is in the folder of a checkpoint.",
                      .hint = "Name a file elsewhere with --to.",
                      .page = "not-replaced"});
}

int Export(const CheckpointFlags& flags, const Environment& environment) {
  RefuseFileOfCheckpoint(flags.to);
  const Checkpoint checkpoint = OpenNamed(flags.path);
  const Exported what = flags.all ? Exported::kAll : Exported::kModel;
  const std::string extension = fs::path(flags.to).extension().string();
  if (extension == ".pt" || extension == ".pth" || extension == ".bin") {
    ExportTorchFile(checkpoint, flags.to, what);
  } else if (extension == ".safetensors") {
    ExportSafetensors(checkpoint, flags.to, what);
  } else if (const auto missing = ExportFolder(checkpoint, flags.to, environment)) {
    std::fprintf(stderr, "warning: without names of classes: %s\n", ErrorLine(*missing).c_str());
  }
  std::printf("%s: step %lld of %s\n", flags.to.c_str(), static_cast<long long>(checkpoint.step()),
              checkpoint.path().c_str());
  return 0;
}

// Returns whether the model of a run is that of its best step.
bool LoadsBest(const std::string& run) {
  const nlohmann::json config = ResolvedConfigOf(run);
  const nlohmann::json::json_pointer key("/checkpoint/load_best_model_at_end");
  return config.is_object() && config.value(key, false);
}

}  // namespace

std::string CheckpointsOf(const std::string& path) {
  const std::string inside = path + "/checkpoints";
  const nlohmann::json config = ResolvedConfigOf(path);
  if (!config.is_object()) return fs::is_directory(inside) ? inside : path;
  const auto section = config.value("checkpoint", nlohmann::json::object());
  return CheckpointFolderOf(path, section.value("dir", ""));
}

Checkpoint OpenNamed(const std::string& path) {
  const std::vector<StoredCheckpoint> stored = Find(path);
  if (IsCheckpoint(path)) return ValueOrThrow(Checkpoint::Open(path));
  if (const auto best = BestOf(stored); best && LoadsBest(path)) {
    return ValueOrThrow(Checkpoint::Open(best->path));
  }
  NewestCheckpoint newest = ValueOrThrow(OpenNewest(CheckpointsOf(path)));
  for (const Error& error : newest.skipped) {
    std::fprintf(stderr, "passed over: %s\n", ErrorLine(error).c_str());
  }
  if (!newest.checkpoint) throw Failure(newest.skipped.front());
  return *std::move(newest.checkpoint);
}

void AddCheckpointCommand(CLI::App& app, Command& chosen) {
  const auto flags = std::make_shared<CheckpointFlags>();
  CLI::App* command = app.add_subcommand("checkpoint", "List, verify and export checkpoints");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, auto* run) {
    CLI::App* one = command->add_subcommand(name, what);
    one->add_option("path", flags->path, "A run folder, its folder of checkpoints, or one of them")
        ->required();
    one->callback([&chosen, flags, run] {
      chosen = [flags, run](const Environment& environment) { return run(*flags, environment); };
    });
    return one;
  };
  add("list", "Say what checkpoints there are", List);
  add("verify", "Read every byte and compare checksums", VerifyAll);
  CLI::App* exported =
      add("export", "Write the newest, or the one named, in another format", Export);
  exported
      ->add_option("--to", flags->to,
                   "FILE.pt (torch.save), FILE.safetensors, or else a Hugging Face folder")
      ->required();
  exported->add_flag("--all", flags->all,
                     "Of a file: the optimizer's state and all else too, not the model alone");
}

}  // namespace ddprun::trainer
