#include "launcher/batch/slurm_command.h"

#include "launcher/cli/target.h"

namespace ddprun::launcher {

std::optional<ProgramOutput> RunSlurmCommand(std::vector<std::string> words,
                                             const Environment& env,
                                             std::chrono::milliseconds patience) {
  const auto path = FindProgram(words.front(), env);
  if (!path) return std::nullopt;
  words.front() = *path;
  return RunForOutput(words, env, /*with_stderr=*/true, patience);
}

}  // namespace ddprun::launcher
