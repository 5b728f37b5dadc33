// `ddp-trainer tokenize`: text files into a token file.
#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace ddprun::trainer {

// The subcommand's flags and what they are set to.
class TokenizeCommand {
 public:
  // Adds the subcommand; `app` must not outlive this.
  explicit TokenizeCommand(CLI::App& app);
  ~TokenizeCommand();

  bool parsed() const;
  // Prints progress to stderr and a summary to stdout; returns the exit status. Throws Failure.
  int Run() const;

 private:
  struct Flags;
  const std::unique_ptr<Flags> flags_;
  const CLI::App* command_;
};

}  // namespace ddprun::trainer
