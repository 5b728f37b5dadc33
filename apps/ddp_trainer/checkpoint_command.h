// `ddp-trainer checkpoint list | verify | export`, and `ddp-trainer diff`: what runs have left.
#pragma once

#include <memory>
#include <string>

#include "base/env.h"

namespace CLI {
class App;
}

namespace ddprun::trainer {

// The subcommands' flags and what they are set to.
class CheckpointCommand {
 public:
  // Adds the subcommand; `app` must not outlive this.
  explicit CheckpointCommand(CLI::App& app);
  ~CheckpointCommand();

  bool parsed() const;
  // Prints to stdout; returns the exit status: 1 where a checkpoint is damaged. Throws Failure.
  int Run(const Environment& environment) const;

 private:
  struct Flags;
  int List() const;
  int Verify() const;
  int Export(const Environment& environment) const;

  const std::unique_ptr<Flags> flags_;
  const CLI::App* command_;
};

class DiffCommand {
 public:
  explicit DiffCommand(CLI::App& app);
  ~DiffCommand();

  bool parsed() const;
  // Prints to stdout; returns the exit status: 1 where the runs differ in what they computed.
  // Throws Failure.
  int Run() const;

 private:
  struct Flags;
  const std::unique_ptr<Flags> flags_;
  const CLI::App* command_;
};

// The folder that holds the checkpoints of `path`: a run folder, or that folder itself.
std::string CheckpointsOf(const std::string& path);

}  // namespace ddprun::trainer
