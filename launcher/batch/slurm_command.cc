#include "launcher/batch/slurm_command.h"

#include "launcher/cli/read_value.h"
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
  // A path may have blanks: the value ends before the next word with "=", or with the line.
  std::string_view value = std::string_view(line).substr(begin);
  value = value.substr(0, value.find('\n'));
  for (size_t blank = value.find(' '); blank != value.npos; blank = value.find(' ', blank + 1)) {
    const std::string_view word = value.substr(blank + 1, value.find(' ', blank + 1) - blank - 1);
    if (word.find('=') != word.npos) value = value.substr(0, blank);
  }
  return std::string(TrimBlanks(value));
}

}  // namespace ddprun::launcher
