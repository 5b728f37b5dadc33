#include "launcher/cli/preload.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/read_value.h"

namespace ddprun::launcher {

namespace {

// Python checks the rest: any letter beyond ASCII may stand in a name.
bool MayBeModule(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.back() != '.' &&
         std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '.' || c >= 0x80;
         });
}

}  // namespace

Status AddPreload(const std::vector<std::string>& modules, Target& target) {
  if (!target.is_python) {
    return Contradict(
        "--preload imports modules for Python scripts, and " + target.name + " is not run as one.",
        "Leave --preload out.");
  }
  const std::string list = FormatList(modules, ",");
  target.template_argv = {target.program, "-u", "-c", std::string(kPythonTemplate), list};
  target.template_argv.insert(target.template_argv.end(), target.argv.begin(), target.argv.end());
  target.template_text = target.program + ", after it has imported " + list;
  return {};
}

bool ReadModules(std::string_view text, std::vector<std::string>& out) {
  const std::vector<std::string> names = SplitWords(text);
  if (names.empty() || !std::ranges::all_of(names, MayBeModule)) return false;
  out = names;
  return true;
}

}  // namespace ddprun::launcher
