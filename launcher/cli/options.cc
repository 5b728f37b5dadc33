#include "launcher/cli/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <CLI/CLI.hpp>

#include "base/suggest.h"
#include "launcher/cli/torchrun_flags.h"

namespace ddprun::launcher {

namespace {

constexpr int64_t kMaxLocalWorkers = 4096;
constexpr int64_t kMaxNodes = 65536;
constexpr double kMaxShutdownSeconds = 86400;

// One flag. `read` takes the text (of a switch: "1") and says what is expected when it is wrong.
struct Flag {
  std::string_view name;    // canonical spelling, with underscores
  std::string_view letter;  // one-letter form or empty
  std::string_view pet;     // the variable that holds its default
  std::string_view value;   // what the help shows as its value; empty: a switch
  std::string_view help;
  bool (*read)(std::string_view text, Options& options);
  std::string_view expected;
};

bool ReadBounded(std::string_view text, int64_t min, int64_t max, int64_t& out) {
  const std::optional<int64_t> value = ParseInt(text);
  if (!value || *value < min || *value > max) return false;
  out = *value;
  return true;
}

bool ReadSwitch(std::string_view text, bool& out) {
  int64_t value = 0;
  if (!ReadBounded(text, 0, 1, value)) return false;
  out = value != 0;
  return true;
}

bool ReadProcesses(std::string_view text, Options& options) {
  int64_t value = 0;
  const bool word = text == "auto" || text == "cpu" || text == "gpu";
  if (!word && !ReadBounded(text, 1, kMaxLocalWorkers, value)) return false;
  options.nproc_per_node = text;
  return true;
}

bool ReadNodes(std::string_view text, Options& options) {
  int64_t low = 0;
  int64_t high = 0;
  const size_t colon = text.find(':');
  if (!ReadBounded(text.substr(0, colon), 1, kMaxNodes, low)) return false;
  if (colon != std::string_view::npos) {
    if (!ReadBounded(text.substr(colon + 1), 1, kMaxNodes, high) || low != high) return false;
  }
  options.min_nodes = static_cast<int>(low);
  options.max_nodes = static_cast<int>(low);
  return true;
}

bool ReadNodeRank(std::string_view text, Options& options) {
  int64_t value = 0;
  if (!ReadBounded(text, 0, kMaxNodes - 1, value)) return false;
  options.node_rank = static_cast<int>(value);
  return true;
}

bool ReadAddress(std::string_view text, Options& options) {
  if (text.empty() || text.find_first_of(" \t/") != std::string_view::npos) return false;
  // [::1] and ::1 are the same address; sockets and torch want it without brackets.
  if (text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  options.master_addr = text;
  return true;
}

bool ReadPort(std::string_view text, Options& options) {
  int64_t value = 0;
  if (!ReadBounded(text, 0, 65535, value)) return false;
  options.master_port.reset();
  if (value != 0) options.master_port = static_cast<uint16_t>(value);
  return true;
}

bool ReadSeconds(std::string_view text, Options& options) {
  double seconds = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool whole = code == std::errc() && end == text.data() + text.size();
  if (!whole || !(seconds >= 0 && seconds <= kMaxShutdownSeconds)) return false;
  options.shutdown_timeout = std::chrono::milliseconds(std::llround(seconds * 1000));
  return true;
}

constexpr std::array kFlags = {
    Flag{"nproc_per_node", "", "PET_NPROC_PER_NODE", "N",
         "Workers on this node: a number, auto, cpu or gpu (default 1)", ReadProcesses,
         "a number from 1 to 4096, or one of auto, cpu, gpu"},
    Flag{"nnodes", "", "PET_NNODES", "N", "Nodes in the job (default 1)", ReadNodes,
         "a number of nodes from 1 to 65536; a range MIN:MAX (elastic) is not supported yet"},
    Flag{"node_rank", "", "PET_NODE_RANK", "N", "This node's rank, 0 to nnodes - 1 (default 0)",
         ReadNodeRank, "a number from 0 to 65535"},
    Flag{"master_addr", "", "PET_MASTER_ADDR", "HOST", "Address of node 0 (default 127.0.0.1)",
         ReadAddress, "a host name or an IP address"},
    Flag{"master_port", "", "PET_MASTER_PORT", "PORT",
         "Port of node 0 (default: a free one on one node, 29500 on several)", ReadPort,
         "a port from 1 to 65535, or 0 for a free one"},
    Flag{"standalone", "", "PET_STANDALONE", "",
         "One node with a free port, whatever other flags say",
         [](std::string_view text, Options& o) { return ReadSwitch(text, o.standalone); },
         "0 or 1"},
    Flag{"module", "m", "PET_MODULE", "", "TARGET is a Python module, as with python -m",
         [](std::string_view text, Options& o) { return ReadSwitch(text, o.module); }, "0 or 1"},
    Flag{"no_python", "", "PET_NO_PYTHON", "", "Run TARGET as it is, not with Python",
         [](std::string_view text, Options& o) { return ReadSwitch(text, o.no_python); }, "0 or 1"},
    Flag{"shutdown_timeout", "", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "SECONDS",
         "From SIGTERM to SIGKILL for workers that have to stop (default 30)", ReadSeconds,
         "seconds from 0 to 86400"},
};

Error UsageError(
    std::string title, std::string where, std::string what, std::string hint, std::string page) {
  return Error{.code = Code::kUsage,
               .title = std::move(title),
               .where = std::move(where),
               .what = std::move(what),
               .hint = std::move(hint),
               .page = std::move(page)};
}

Error BadValue(const Flag& flag, std::string_view shown_name, std::string_view text) {
  return UsageError("BAD VALUE", std::string(shown_name),
                    std::string(shown_name) + " is \"" + std::string(text) + "\"; expected " +
                        std::string(flag.expected) + ".",
                    "", "bad-value");
}

std::string Canonical(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '-', '_');
  return result;
}

Error UnknownFlag(const std::string& arg, const std::string& canonical) {
  if (IsTorchrunFlag(canonical)) {
    return UsageError("FLAG NOT SUPPORTED YET", arg,
                      arg + " is a flag of torchrun that this version of ddprun does not have.",
                      "See ddprun --help for the flags that it has.", "flag-not-supported-yet");
  }
  std::vector<std::string> names = {"help", "version"};
  for (const Flag& flag : kFlags) names.emplace_back(flag.name);
  const std::optional<std::string> nearest = Nearest(canonical, names);
  return UsageError("UNKNOWN FLAG", arg, "I do not know the flag " + arg + ".",
                    nearest ? "Did you mean --" + *nearest + "?"
                            : "See ddprun --help. Flags of your program go after TARGET.",
                    "unknown-flag");
}

// The flag that `name` means: itself, or the only one it is a prefix of, as argparse has it.
const Flag* FindFlag(const std::string& name, bool one_letter) {
  const Flag* found = nullptr;
  for (const Flag& flag : kFlags) {
    if (one_letter ? flag.letter == name : flag.name == name) return &flag;
    if (one_letter || !flag.name.starts_with(name)) continue;
    if (found != nullptr) return nullptr;
    found = &flag;
  }
  return found;
}

// Our part of the command line rewritten in canonical spelling, and where the target begins.
struct SplitArgs {
  std::vector<std::string> flags;
  size_t target_index = 0;
};

// Which words are values and which the target depends on each flag's arity, and the target ends
// our part: so this walk comes before CLI11, which would go on reading flags behind the target.
Result<SplitArgs> Split(const std::vector<std::string>& args) {
  SplitArgs split;
  size_t i = 0;
  for (; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg.size() < 2 || arg[0] != '-') break;
    if (arg == "--") {
      ++i;
      break;
    }
    const bool one_letter = arg[1] != '-';
    const size_t equals = arg.find('=');
    const std::string spelled = arg.substr(0, equals);
    const std::string name = Canonical(spelled.substr(one_letter ? 1 : 2));
    if (spelled == "-h" || spelled == "--help" || spelled == "--version") {
      split.flags.push_back(spelled);
      continue;
    }
    const Flag* flag = name.empty() ? nullptr : FindFlag(name, one_letter);
    if (flag == nullptr) return UnknownFlag(spelled, name);
    std::string value = "1";
    if (equals != std::string::npos) {
      value = arg.substr(equals + 1);
    } else if (!flag->value.empty()) {
      if (i + 1 == args.size()) {
        return UsageError("MISSING VALUE", spelled,
                          spelled + " needs a value; expected " + std::string(flag->expected) + ".",
                          "", "bad-value");
      }
      value = args[++i];
    }
    split.flags.push_back("--" + std::string(flag->name) + "=" + value);
  }
  split.target_index = i;
  return split;
}

class HelpText : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: ddprun [flags] TARGET [args...]\n\n"
           "TARGET is a trainer config (.json), a Python script (.py), a module with -m, or any\n"
           "program. Flags can be spelled with dashes or underscores.\n";
  }
};

Status CheckTogether(Options& options) {
  if (options.standalone) {
    options.min_nodes = 1;
    options.max_nodes = 1;
    options.node_rank = 0;
    options.master_addr = "127.0.0.1";
    options.master_port.reset();
  }
  if (options.node_rank.value_or(0) >= options.max_nodes) {
    const std::string nodes = std::to_string(options.max_nodes);
    return UsageError("BAD VALUE", "--node_rank",
                      "--node_rank is " + std::to_string(*options.node_rank) + ", but --nnodes is " +
                          nodes + "; expected 0 to " + std::to_string(options.max_nodes - 1) + ".",
                      "", "bad-value");
  }
  if (options.module && options.no_python) {
    return UsageError("FLAGS CONTRADICT", "", "--module runs Python and --no_python does not.",
                      "Give one of them.", "flags-contradict");
  }
  if (options.target.empty()) {
    return UsageError("NO TARGET", "", "Nothing to run was given.",
                      "Usage: ddprun [flags] TARGET [args...]\n"
                      "  ddprun --nproc_per_node=4 train.json\n"
                      "  ddprun --nproc_per_node=4 train.py --lr 0.1",
                      "no-target");
  }
  return {};
}

Status ReadDefaults(const Environment& env, Options& options) {
  for (const Flag& flag : kFlags) {
    const std::string text = env.GetOr(flag.pet, "");
    if (!text.empty() && !flag.read(text, options)) return BadValue(flag, flag.pet, text);
  }
  return {};
}

}  // namespace

Result<std::variant<Options, TextToPrint>> ParseOptions(const std::vector<std::string>& args,
                                                        const Environment& env) {
  using Parsed = std::variant<Options, TextToPrint>;
  DDPRUN_ASSIGN(const SplitArgs split, Split(args));

  CLI::App app("Starts one worker process per device, on one node or many.", "ddprun");
  app.formatter(std::make_shared<HelpText>());
  app.set_version_flag("--version", "ddprun " DDPRUN_VERSION);
  std::array<std::string, kFlags.size()> texts;
  for (size_t i = 0; i < kFlags.size(); ++i) {
    const Flag& flag = kFlags[i];
    const std::string names = (flag.letter.empty() ? "" : "-" + std::string(flag.letter) + ",") +
                              "--" + std::string(flag.name);
    CLI::Option* option = app.add_option(names, texts[i], std::string(flag.help));
    option->take_last()->type_name(std::string(flag.value));
  }
  try {
    // CLI11 takes the words from the back.
    app.parse(std::vector<std::string>(split.flags.rbegin(), split.flags.rend()));
  } catch (const CLI::CallForHelp&) {
    return Parsed(TextToPrint{app.help()});
  } catch (const CLI::CallForVersion&) {
    return Parsed(TextToPrint{app.version() + "\n"});
  } catch (const CLI::ParseError& error) {
    return UsageError("BAD COMMAND LINE", "", error.what(), "See ddprun --help.", "unknown-flag");
  }

  Options options;
  DDPRUN_TRY(ReadDefaults(env, options));
  for (size_t i = 0; i < kFlags.size(); ++i) {
    if (app.count("--" + std::string(kFlags[i].name)) == 0) continue;
    if (!kFlags[i].read(texts[i], options)) {
      return BadValue(kFlags[i], "--" + std::string(kFlags[i].name), texts[i]);
    }
  }
  if (split.target_index < args.size()) {
    options.target = args[split.target_index];
    options.target_args.assign(args.begin() + static_cast<std::ptrdiff_t>(split.target_index) + 1,
                               args.end());
  }
  DDPRUN_TRY(CheckTogether(options));
  return Parsed(std::move(options));
}

}  // namespace ddprun::launcher
