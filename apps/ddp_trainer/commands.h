// The subcommands of ddp-trainer: each adds itself with its flags.
#pragma once

#include <functional>
#include <string>

#include "base/env.h"

namespace CLI {
class App;
}

namespace ddprun::trainer {

// What the command line asks for. Prints to stdout; returns the exit status. Throws Failure.
using Command = std::function<int(const Environment& environment)>;

// Each sets `chosen`, which must outlive `app`, when the line is parsed and names it.
// What is wrong with a config, without a step of training; problems go to stderr.
void AddCheckCommand(CLI::App& app, Command& chosen);
// `checkpoint list | verify | export`: what runs have left; status 1: one is damaged.
void AddCheckpointCommand(CLI::App& app, Command& chosen);
// Where two runs part; status 1: in what they computed.
void AddDiffCommand(CLI::App& app, Command& chosen);
// What each strategy would cost, and which one to take.
void AddPlanCommand(CLI::App& app, Command& chosen);
// Text files into a token file; progress goes to stderr.
void AddTokenizeCommand(CLI::App& app, Command& chosen);
// Text from a model folder; its speed goes to stderr.
void AddGenerateCommand(CLI::App& app, Command& chosen);

// The folder that holds the checkpoints of `path`: a run folder, or that folder itself.
std::string CheckpointsOf(const std::string& path);

}  // namespace ddprun::trainer
