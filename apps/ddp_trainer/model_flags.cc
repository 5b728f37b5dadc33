#include <cstdio>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>

#include "apps/ddp_trainer/commands.h"
#include "base/failure.h"
#include "trainer/config/device_name.h"
#include "trainer/worker/exported_job.h"
#include "trainer/worker/use_ranks.h"

namespace ddprun::trainer {

void AddModelFlags(CLI::App& command, ModelFlags& flags) {
  command
      .add_option("path", flags.path,
                  "A run folder, its folder of checkpoints, one of them (default: the newest), or "
                  "the folder of a model, such as runs/<name>/model")
      ->required();
  command.add_option("--config", flags.config,
                     "For the folder of a model: the config that says what the files are (default: "
                     "that of the run around the folder)");
  AddDeviceFlag(command, flags.device,
                "auto, cpu, cuda (each rank has a GPU of its own) or cuda:N");
}

void AddDeviceFlag(CLI::App& command, std::string& device, const std::string& text) {
  command.add_option("--device", device, text)
      ->check([](const std::string& name) -> std::string {
        if (NamesDevice(name)) return "";
        return "expected auto, cpu, cuda or cuda:N, not \"" + name + "\"";
      })
      ->capture_default_str();
}

namespace {

Mesh WithNote(UseRanks ranks) {
  if (!ranks.note.empty() && ranks.mesh.world.rank == 0) {
    std::fprintf(stderr, "warning: %s\n", ranks.note.c_str());
  }
  return std::move(ranks.mesh);
}

}  // namespace

Mesh MeetToUse(const ModelFlags& flags, const Environment& environment, SavedJob& saved) {
  return WithNote(MeetToUse(flags.device, environment, saved.job));
}

c10::Device UseDeviceAlone(const std::string& device, const Environment& environment) {
  return WithNote(TakeDevice(device, environment)).device;
}

SavedJob OpenForUse(const ModelFlags& flags, const Environment& environment) {
  if (IsModelFolder(flags.path)) return OpenExportedJob(flags.path, flags.config, environment);
  if (!flags.config.empty()) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "CONFIG BESIDE A RUN",
                        .where = flags.path,
                        .what = "--config was given, but \"" + flags.path +
                                "\" is no folder of a model: a run and its checkpoints have "
                                "their config.",
                        .hint = "Leave out --config, or name a folder with config.json.",
                        .page = "folder-does-not-say-enough"});
  }
  return OpenSavedJob(std::make_shared<const Checkpoint>(OpenNamed(flags.path)), environment);
}

std::string NameOf(const SavedJob& saved) {
  if (saved.step == 0) return "the model in " + saved.path;
  return "step " + std::to_string(saved.step) + " of " + saved.path;
}

}  // namespace ddprun::trainer
