#include "launcher/cli/options.h"

#include <algorithm>
#include <array>

#include "launcher/cli/command_line.h"
#include "launcher/cli/flag.h"
#include "launcher/cli/help_text.h"

namespace ddprun::launcher {

namespace {

using Parsed = std::variant<Options, TextToPrint, VersionsToPrint>;

Error NotExpected(const Flag& flag, const std::string& shown_name, const std::string& text) {
  return BadValue(shown_name, shown_name + " is \"" + text + "\"; expected " +
                                  std::string(flag.expected) + ".");
}

Result<Parsed> Print(const GivenFlag& given,
                     const std::vector<Flag>& flags,
                     std::span<const Subcommand> subcommands) {
  if (given.flag.name == "version") return Parsed(VersionsToPrint{});
  if (given.flag.name == "print_man_page") return Parsed(TextToPrint{ManPage(flags, subcommands)});
  if (given.flag.name == "print_completion") {
    if (given.value == "bash") return Parsed(TextToPrint{BashCompletion(flags, subcommands)});
    if (given.value == "zsh") return Parsed(TextToPrint{ZshCompletion(flags)});
    return NotExpected(given.flag, "--print_completion", given.value);
  }
  return Parsed(TextToPrint{HelpText(flags, subcommands)});
}

Status ReadDefaults(const Environment& env, const std::vector<Flag>& flags, Options& options) {
  for (const Flag& flag : flags) {
    if (flag.variable.empty()) continue;
    const std::string text = env.GetOr(flag.variable, "");
    if (!text.empty() && !flag.read(text, options)) {
      return NotExpected(flag, std::string(flag.variable), text);
    }
    if (!text.empty()) options.given.emplace(flag.name);
  }
  return {};
}

// Warns about flags after the target that a script hardly has.
void NoteFlagsBehindTarget(Options& options) {
  constexpr std::array<std::string_view, 7> kOurs = {
      "nproc_per_node", "nnodes",        "standalone",  "max_restarts",
      "rdzv_backend",   "rdzv_endpoint", "hang_timeout"};
  for (const std::string& arg : options.target_args) {
    if (!arg.starts_with("--")) continue;
    std::string name = arg.substr(2, arg.find('=') - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    if (std::find(kOurs.begin(), kOurs.end(), name) == kOurs.end()) continue;
    options.notes.push_back(arg + " stands behind " + options.target +
                            " and goes to it; flags of ddprun stand in front of it");
  }
}

void DropRepeated(std::vector<std::string>& lines) {
  std::vector<std::string> kept;
  for (std::string& line : lines) {
    if (std::find(kept.begin(), kept.end(), line) == kept.end()) kept.push_back(std::move(line));
  }
  lines = std::move(kept);
}

}  // namespace

Error BadValue(std::string where, std::string what, std::string hint) {
  return {.code = Code::kUsage,
          .title = "BAD VALUE",
          .where = std::move(where),
          .what = std::move(what),
          .hint = std::move(hint),
          .page = "bad-value"};
}

Result<Parsed> ParseOptions(const std::vector<std::string>& args,
                            const Environment& env,
                            std::span<const Subcommand> subcommands,
                            CompleteOptionsFunction complete) {
  const std::vector<Flag> flags = AllFlags();
  DDPRUN_ASSIGN(const SplitArgs split, SplitFlags(args, flags));
  for (const GivenFlag& given : split.flags) {
    if (given.flag.read == nullptr) return Print(given, flags, subcommands);
  }
  Options options;
  DDPRUN_TRY(ReadDefaults(env, flags, options));
  for (const GivenFlag& given : split.flags) {
    if (!given.flag.read(given.value, options)) {
      return NotExpected(given.flag, "--" + std::string(given.flag.name), given.value);
    }
    options.given.emplace(given.flag.name);
  }
  if (split.target_index < args.size()) {
    options.target = args[split.target_index];
    options.target_args.assign(args.begin() + static_cast<std::ptrdiff_t>(split.target_index) + 1,
                               args.end());
  }
  if (complete != nullptr) DDPRUN_TRY(complete(env, options));
  DDPRUN_TRY(CheckTogether(options));
  NoteFlagsBehindTarget(options);
  DropRepeated(options.notes);
  return Parsed(std::move(options));
}

}  // namespace ddprun::launcher
