#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/text.h"
#include "launcher/cli/target.h"
#include "launcher/commands.h"
#include "launcher/process/program_output.h"

namespace ddprun::launcher {

namespace {

constexpr std::string_view kGroup = "## ";
constexpr std::string_view kSection = "### ";
constexpr const char* kHelp = R"(What a message, or a key of a config, means.

Usage: ddprun explain NAME   such as worker-failed, learning_rate or run.max_steps
       ddprun explain        lists all messages
)";

Error NoSuchName(std::string_view name, const std::vector<std::string>& names) {
  const std::optional<std::string> nearest = FindNearest(name, names);
  return Error{
      .code = Code::kUsage,
      .title = "UNKNOWN NAME",
      .where = "ddprun explain " + std::string(name),
      .what = "No message and no key of a config has the name \"" + std::string(name) + "\".",
      .hint =
          nearest
              ? "Did you mean " + *nearest + "?"
              : "ddprun explain, without a name, lists all messages; docs/config.md has the keys."};
}

// Returns ddp-trainer's description of a config key. "" means that there is no ddp-trainer or no
// such key.
std::string ExplainKey(const std::string& name, const Environment& env) {
  const Result<std::string> trainer = FindTrainer(env, ProgramFolder());
  if (!trainer) return "";
  const auto told = RunForOutput({*trainer, "config-doc", name}, env, /*with_stderr=*/false,
                                 std::chrono::seconds(10));
  return told && told->status == 0 ? told->text : "";
}

}  // namespace

Result<std::string> Explain(std::string_view name, std::string_view page) {
  name.remove_prefix(name.find('#') + 1);  // removes nothing if there is no '#'
  std::vector<std::string> names;
  std::string list;
  std::string section;
  bool inside = false;
  for (const std::string& line : SplitLines(page)) {
    if (line.starts_with(kGroup)) {
      list += (list.empty() ? "" : "\n") + line.substr(kGroup.size()) + "\n";
      inside = false;
    } else if (line.starts_with(kSection)) {
      names.push_back(line.substr(kSection.size()));
      list += "  " + names.back() + "\n";
      inside = names.back() == name;
    }
    if (inside) section += line + "\n";
  }
  if (name.empty()) return list;
  if (section.empty()) return NoSuchName(name, names);
  section.erase(section.find_last_not_of('\n') + 1);
  return section.substr(kSection.size()) + "\n";
}

Result<int> RunExplain(const std::vector<std::string>& args, const Environment& env) {
  const std::string name = args.empty() ? "" : args.front();
  if (name == "--help" || name == "-h") {
    std::fputs(kHelp, stdout);
    return 0;
  }
  Result<std::string> text = Explain(name);
  // Names of messages have dashes, keys none.
  if (!text && name.find('-') == name.npos) {
    if (std::string key = ExplainKey(name, env); !key.empty()) text = std::move(key);
  }
  if (!text) return std::move(text).error();
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace ddprun::launcher
