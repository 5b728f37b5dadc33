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

std::string ReadJobField(std::string_view name, std::string_view text) {
  const std::string key = " " + std::string(name) + "=";
  const std::string line = " " + std::string(text);  // the first field, too, follows a blank
  const size_t at = line.find(key);
  if (at == line.npos) return "";
  const size_t begin = at + key.size();
  return line.substr(begin, line.find_first_of(" \n", begin) - begin);
}

}  // namespace ddprun::launcher
