// The subcommands of ddp-trainer.
#pragma once

#include <functional>
#include <string>

#include <ddprun/mesh.h>
#include "base/env.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/worker/saved_job.h"

namespace CLI {
class App;
}

namespace ddprun::trainer {

// A command with its flags. Prints to stdout and returns the exit status. Throws Failure.
using Command = std::function<int(const Environment& environment)>;

// Each adds a command to `app`. If the parsed line names it, it sets `chosen`, which outlives
// `app`. check: finds errors of a config without training; they go to stderr.
void AddCheckCommand(CLI::App& app, Command& chosen);
// checkpoint list | verify | export: shows, checks and exports checkpoints. Status 1: damaged.
void AddCheckpointCommand(CLI::App& app, Command& chosen);
// diff: shows where two runs begin to differ. Status 1: they computed different values; 2: nothing
// can be compared.
void AddDiffCommand(CLI::App& app, Command& chosen);
// evaluate: shows the loss and the metrics of a run's model on other files.
void AddEvaluateCommand(CLI::App& app, Command& chosen);
// plan: shows the costs of each strategy, and which to take.
void AddPlanCommand(CLI::App& app, Command& chosen);
// predict: writes what a run's model predicts for rows without labels.
void AddPredictCommand(CLI::App& app, Command& chosen);
// report: writes a page about runs.
void AddReportCommand(CLI::App& app, Command& chosen);
// tokenize: makes a token file of text files; progress goes to stderr.
void AddTokenizeCommand(CLI::App& app, Command& chosen);
// generate: writes text with the model of a folder; its speed goes to stderr.
void AddGenerateCommand(CLI::App& app, Command& chosen);

// Returns the folder with the checkpoints of `path`, which is a run folder or this folder itself.
std::string CheckpointsOf(const std::string& path);

// Opens the newest undamaged checkpoint of a run folder or a folder of checkpoints, or the
// checkpoint `path`. Damaged checkpoints that it passes over go to stderr. Throws Failure.
Checkpoint OpenNamed(const std::string& path);

// Adds the argument `path` and the options --config and --device of a command that uses a model.
struct ModelFlags {
  std::string path;
  std::string config;
  std::string device = "auto";
};
void AddModelFlags(CLI::App& command, ModelFlags& flags);
// Adds --device alone. `text` is its help.
void AddDeviceFlag(CLI::App& command, std::string& device, const std::string& text);
// Opens the job of OpenNamed(), or of a model folder. Throws Failure.
SavedJob OpenForUse(const ModelFlags& flags, const Environment& environment);
// Meets the other ranks that the launcher has started, and takes the device. Rank 0 says on stderr
// why a GPU is not used. A collective. Throws Failure.
Mesh MeetToUse(const ModelFlags& flags, const Environment& environment, SavedJob& saved);
// Takes the device for this process alone. Says on stderr why a GPU is not used. Throws Failure.
c10::Device UseDeviceAlone(const std::string& device, const Environment& environment);
// Returns "step 200 of runs/iris/checkpoints/step-200", or "the model in FOLDER".
std::string NameOf(const SavedJob& saved);

}  // namespace ddprun::trainer
