// `ddp-trainer check`: what is wrong with a config, without a step of training.
#pragma once

#include <memory>

#include "base/env.h"

namespace CLI {
class App;
}

namespace ddprun::trainer {

// The subcommand's flags and what they are set to.
class CheckCommand {
 public:
  // Adds the subcommand; `app` must not outlive this.
  explicit CheckCommand(CLI::App& app);
  ~CheckCommand();

  bool parsed() const;
  // Prints what was found to stdout and what is wrong to stderr; returns the exit status. Throws
  // Failure.
  int Run(const Environment& environment) const;

 private:
  struct Flags;
  const std::unique_ptr<Flags> flags_;
  const CLI::App* command_;
};

}  // namespace ddprun::trainer
