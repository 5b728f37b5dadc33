// `ddp-trainer generate`: text from a model folder.
#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace ddprun::trainer {

// The subcommand's flags and what they are set to.
class GenerateCommand {
 public:
  // Adds the subcommand; `app` must not outlive this.
  explicit GenerateCommand(CLI::App& app);
  ~GenerateCommand();

  bool parsed() const;
  // Prints prompt and text to stdout and the speed to stderr; returns the exit status. Throws
  // Failure.
  int Run() const;

 private:
  struct Flags;
  const std::unique_ptr<Flags> flags_;
  const CLI::App* command_;
};

}  // namespace ddprun::trainer
