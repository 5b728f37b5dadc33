#include <algorithm>
#include <optional>
#include <sstream>

#include "base/text.h"
#include "launcher/cli/command_line.h"

namespace ddprun::launcher {

namespace {

Error UsageError(std::string title,
                 std::string_view where,
                 std::string what,
                 std::string hint,
                 std::string page) {
  return Error{.code = Code::kUsage,
               .title = std::move(title),
               .where = std::string(where),
               .what = std::move(what),
               .hint = std::move(hint),
               .page = std::move(page)};
}

std::string Canonical(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '-', '_');
  return result;
}

class Splitter {
 public:
  Splitter(const std::vector<std::string>& args, std::span<const Flag> flags)
      : args_(args), flags_(flags) {}

  Result<SplitArgs> Split() {
    for (; next_ < args_.size(); ++next_) {
      const std::string& arg = args_[next_];
      // All words after the target are the target's.
      if (arg.size() < 2 || arg[0] != '-') break;
      if (arg == "--") {
        ++next_;
        break;
      }
      DDPRUN_TRY(arg[1] == '-' ? ReadLong(arg) : ReadShort(arg));
    }
    split_.target_index = next_;
    return std::move(split_);
  }

 private:
  Status ReadLong(const std::string& arg) {
    const size_t equals = arg.find('=');
    const std::string spelled = arg.substr(0, equals);
    const std::string name = Canonical(std::string_view(spelled).substr(2));
    const std::vector<const Flag*> meant = Meant(name);
    if (meant.empty()) return Unknown(spelled, name);
    if (meant.size() > 1) return Ambiguous(spelled, meant);
    std::optional<std::string> attached;
    if (equals != std::string::npos) attached = arg.substr(equals + 1);
    return Take(*meant.front(), spelled, std::move(attached));
  }

  // Reads "-np", "-np=4", or "-mr3": switches, then one flag with its value.
  Status ReadShort(const std::string& arg) {
    const size_t equals = arg.find('=');
    if (const Flag* flag = Short(arg.substr(1, equals == std::string::npos ? equals : equals - 1));
        flag != nullptr) {
      std::optional<std::string> attached;
      if (equals != std::string::npos) attached = arg.substr(equals + 1);
      return Take(*flag, arg.substr(0, equals), std::move(attached));
    }
    // "-hostfile" does not mean -h and more letters.
    const std::string spelled = arg.substr(0, equals);
    if (!AnswerFor(Canonical(spelled.substr(1))).empty()) {
      return Unknown(spelled, Canonical(spelled.substr(1)));
    }
    for (size_t i = 1; i < arg.size(); ++i) {
      const std::string letter = arg.substr(i, 1);
      const Flag* const flag = Short(letter);
      if (flag == nullptr) return Unknown(i == 1 ? arg : "-" + letter, Canonical(arg.substr(1)));
      if (!flag->value.empty()) {
        std::optional<std::string> attached;
        if (i + 1 < arg.size()) attached = arg.substr(i + 1);
        return Take(*flag, "-" + letter, std::move(attached));
      }
      DDPRUN_TRY(Take(*flag, "-" + letter, std::nullopt));
    }
    return {};
  }

  Status Take(const Flag& flag, const std::string& spelled, std::optional<std::string> attached) {
    if (!attached && flag.value.empty()) attached = "1";
    if (!attached) {
      if (next_ + 1 == args_.size()) {
        return UsageError("MISSING VALUE", spelled,
                          spelled + " needs a value; expected " + std::string(flag.expected) + ".",
                          "", "bad-value");
      }
      attached = args_[++next_];
    }
    split_.flags.push_back({flag, *std::move(attached)});
    return {};
  }

  const Flag* Short(const std::string& name) const {
    for (const Flag& flag : flags_) {
      std::stringstream names{std::string(flag.short_names)};
      for (std::string candidate; names >> candidate;) {
        if (candidate == name) return &flag;
      }
    }
    return nullptr;
  }

  // Returns the flag of this name, or all flags that begin with it.
  std::vector<const Flag*> Meant(const std::string& name) const {
    std::vector<const Flag*> of_torchrun;
    std::vector<const Flag*> ours;
    for (const Flag& flag : flags_) {
      if (flag.name == name) return {&flag};
      if (!name.empty() && flag.name.starts_with(name)) {
        (flag.of_torchrun ? of_torchrun : ours).push_back(&flag);
      }
    }
    return of_torchrun.empty() ? ours : of_torchrun;
  }

  Error Unknown(const std::string& spelled, const std::string& name) const {
    const std::string known(AnswerFor(name));
    if (!known.empty()) {
      return UsageError("UNKNOWN FLAG", spelled, "ddprun has no flag " + spelled + ".", known,
                        "unknown-flag");
    }
    std::vector<std::string> names;
    for (const Flag& flag : flags_) names.emplace_back(flag.name);
    const std::optional<std::string> nearest = FindNearest(name, names);
    return UsageError("UNKNOWN FLAG", spelled, "I do not know the flag " + spelled + ".",
                      nearest ? "Did you mean --" + *nearest + "?"
                              : "See ddprun --help. Flags of your program go after TARGET.",
                      "unknown-flag");
  }

  static Error Ambiguous(const std::string& spelled, const std::vector<const Flag*>& meant) {
    std::string list;
    for (const Flag* flag : meant) list += (list.empty() ? "--" : ", --") + std::string(flag->name);
    return UsageError("UNKNOWN FLAG", spelled, spelled + " is short for several flags.",
                      "It may be " + list + ".", "unknown-flag");
  }

  const std::vector<std::string>& args_;
  std::span<const Flag> flags_;
  size_t next_ = 0;
  SplitArgs split_;
};

}  // namespace

Result<SplitArgs> SplitFlags(const std::vector<std::string>& args, std::span<const Flag> flags) {
  return Splitter(args, flags).Split();
}

}  // namespace ddprun::launcher
