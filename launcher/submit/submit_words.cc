#include "launcher/submit/submit_words.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "base/env.h"
#include "base/text.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/flag.h"

namespace ddprun::launcher {

namespace {

enum class Value : uint8_t { kRequired, kOptional, kNone };

// sbatch's options: the long name, and behind a colon the letter. --requeue is ddprun's, too; the
// batch file has sbatch's in any case.
struct SbatchOptions {
  Value value;
  std::string_view words;
};
constexpr auto kSbatch = std::to_array<SbatchOptions>({
    {Value::kRequired,
     "account:A acctg-freq array:a batch bb bbf begin:b clusters:M cluster-constraint comment "
     "constraint:C container core-spec:S cores-per-socket cpu-freq cpus-per-gpu cpus-per-task:c "
     "deadline delay-boot dependency:d distribution error:e exclude:x export export-file "
     "extra-node-info:B gid gpu-bind gpu-freq gpus:G gpus-per-node gpus-per-socket gpus-per-task "
     "gres gres-flags hint input:i job-name:J kill-on-invalid-dep licenses:L mail-type mail-user "
     "mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nodefile:F nodelist:w nodes:N "
     "ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output:o "
     "partition:p power prefer priority profile qos:q reservation signal sockets-per-node switches "
     "thread-spec threads-per-core time:t time-min tmp tres-per-task uid wckey"},
    {Value::kOptional, "exclusive get-user-env nice no-kill:k propagate"},
    {Value::kNone,
     "contiguous hold:H ignore-pbs no-requeue overcommit:O oversubscribe:s reboot spread-job "
     "use-min-nodes"},
});

// Options that have no place in a batch file that ddprun writes, by name with dashes or by letter.
constexpr auto kRefused = std::to_array<KnownFlags>({
    {"wrap", "The batch file is ddprun's: give the program as TARGET."},
    {"test-only", "--dry_run shows the file and submits nothing."},
    {"wait W", "--follow waits for the job's end and returns its exit code."},
    {"chdir D", "The job runs in the folder of this command: cd there first."},
    {"parsable quiet Q verbose v usage version V", "Leave it out."},
    {"node-rank standalone master-addr master-port",
     "Leave it out: srun starts ddprun on each node, where it finds its place by itself."},
    {"m", "Write --module (of ddprun) or --distribution (of sbatch) in full."},
    {"n", "Write --nproc_per_node (of ddprun) or --ntasks (of sbatch) in full."},
    {"print-completion print-man-page", "Give it to ddprun itself, without submit."},
});

struct Option {
  std::string name = {};  // "" means unknown
  Value value = Value::kNone;
  bool of_sbatch = false;
};

std::string Spelled(std::string_view text, char from, char to) {
  std::string result(text);
  std::ranges::replace(result, from, to);
  return result;
}

Option FindSbatch(std::string_view wanted, bool letter) {
  for (const SbatchOptions& row : kSbatch) {
    for (const std::string_view word : SplitAt(row.words, ' ')) {
      const size_t colon = std::min(word.find(':'), word.size());
      const std::string_view name = word.substr(0, colon);
      const std::string_view own_letter = word.substr(std::min(colon + 1, word.size()));
      if ((letter ? own_letter : name) != wanted || wanted.empty()) continue;
      return {.name = std::string(name), .value = row.value, .of_sbatch = true};
    }
  }
  return {};
}

Option FindOption(const std::string& spelled) {
  if (!spelled.starts_with("--")) return FindSbatch(spelled.substr(1), /*letter=*/true);
  if (Option found = FindSbatch(Spelled(spelled.substr(2), '_', '-'), false); !found.name.empty()) {
    return found;
  }
  const std::string name = Spelled(spelled.substr(2), '-', '_');
  for (const Flag& flag : AllFlags()) {
    if (flag.name != name) continue;
    return {.name = name, .value = flag.value.empty() ? Value::kOptional : Value::kRequired};
  }
  return {};
}

Error Refusal(const std::string& spelled, std::string what, std::string hint) {
  return {.code = Code::kUsage,
          .title = "UNKNOWN FLAG",
          .where = spelled,
          .what = std::move(what),
          .hint = std::move(hint),
          .page = "unknown-flag"};
}

Error Unknown(const std::string& spelled) {
  std::vector<std::string> names;
  for (const SbatchOptions& row : kSbatch) {
    for (const std::string_view word : SplitAt(row.words, ' ')) {
      names.emplace_back("--" + std::string(word.substr(0, word.find(':'))));
    }
  }
  for (const Flag& flag : AllFlags()) names.push_back("--" + std::string(flag.name));
  const std::optional<std::string> nearest = FindNearest(spelled, names);
  return Refusal(spelled, "Neither sbatch nor ddprun has an option " + spelled + ".",
                 nearest ? "Did you mean " + *nearest + "?"
                         : "Write options of ddprun in full. Options of your program go after "
                           "TARGET.");
}

class Splitter {
 public:
  explicit Splitter(const std::vector<std::string>& args) : args_(args) {}

  Result<SubmitWords> Split() {
    for (; next_ < args_.size(); ++next_) {
      const std::string& arg = args_[next_];
      if (arg.size() < 2 || arg[0] != '-') break;
      if (arg == "--") {
        ++next_;
        break;
      }
      DDPRUN_TRY(Read(arg));
    }
    words_.target.assign(args_.begin() + static_cast<std::ptrdiff_t>(next_), args_.end());
    if (words_.elastic) words_.ddprun.push_back("--nnodes=" + nnodes_);
    return std::move(words_);
  }

 private:
  Status Read(const std::string& arg) {
    const bool is_long = arg.starts_with("--");
    const size_t equals = is_long ? arg.find('=') : std::string::npos;
    const std::string spelled = is_long ? arg.substr(0, equals) : arg.substr(0, 2);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = arg.substr(equals + 1);
    if (!is_long && arg.size() > 2) value = arg.substr(arg[2] == '=' ? 3 : 2);  // -N2
    const std::string name = Spelled(spelled.substr(is_long ? 2 : 1), '_', '-');
    for (const KnownFlags& row : kRefused) {
      for (const std::string_view word : SplitAt(row.words, ' ')) {
        if (word == name && (word.size() > 1 || !is_long)) {
          return Refusal(spelled, "ddprun submit does not take " + spelled + ".",
                         std::string(row.answer));
        }
      }
    }
    if (TakeOwn(spelled)) return {};
    const Option option = FindOption(spelled);
    if (option.name.empty()) return Unknown(spelled);
    if (option.value == Value::kRequired && !value) {
      if (next_ + 1 == args_.size()) return BadValue(spelled, spelled + " needs a value.");
      value = args_[++next_];
    }
    if (option.value == Value::kNone && value) {
      return BadValue(spelled, spelled + " takes no value.");
    }
    return Take(option, spelled, value);
  }

  // The options of `ddprun submit` itself.
  bool TakeOwn(const std::string& spelled) {
    if (spelled == "--help" || spelled == "-h") return words_.help = true;
    if (spelled == "--follow") return words_.follow = true;
    if (spelled == "--dry_run" || spelled == "--dry-run") return words_.dry_run = true;
    return false;
  }

  Status Take(const Option& option,
              const std::string& spelled,
              const std::optional<std::string>& value) {
    if (option.of_sbatch) {
      if (value && value->find_first_of("\n\r") != std::string::npos) {
        return BadValue(spelled, "The value of " + spelled + " has a line end.");
      }
      const bool is_time = option.name.starts_with("time");
      return AddToSbatch(option.name, value && is_time ? SlurmTime(*value) : value, spelled);
    }
    if (option.name != "nnodes") {
      words_.ddprun.push_back(spelled + (value ? "=" + *value : ""));
      return {};
    }
    nnodes_ = *value;
    words_.elastic = nnodes_.find(':') != std::string::npos;
    return AddToSbatch("nodes", Spelled(nnodes_, ':', '-'), spelled);
  }

  Status AddToSbatch(const std::string& name,
                     const std::optional<std::string>& value,
                     const std::string& spelled) {
    if (name == "nodes" && words_.HasAny("nodes")) {
      return Error{.code = Code::kUsage,
                   .title = "FLAGS CONTRADICT",
                   .where = spelled,
                   .what = "The number of nodes is given twice.",
                   .hint = "Give it once: --nodes=N, or --nnodes=MIN:MAX for an elastic job.",
                   .page = "flags-contradict"};
    }
    words_.sbatch.push_back("--" + name + (value ? "=" + *value : ""));
    return {};
  }

  const std::vector<std::string>& args_;
  size_t next_ = 0;
  std::string nnodes_;
  SubmitWords words_;
};

}  // namespace

bool SubmitWords::HasAny(std::string_view names) const {
  return std::ranges::any_of(sbatch, [&](const std::string& option) {
    const std::string name = option.substr(2, option.find('=') - 2);
    const auto all = SplitAt(names, ' ');
    return std::ranges::find(all, name) != all.end();
  });
}

std::string SubmitWords::ValueOf(std::string_view name) const {
  std::string value;
  const std::string begin = "--" + std::string(name) + "=";
  for (const std::string& option : sbatch) {
    if (option.starts_with(begin)) value = option.substr(begin.size());
  }
  return value;
}

bool IsDdprunFlag(std::string_view name) {
  return std::ranges::any_of(AllFlags(), [&](const Flag& flag) { return flag.name == name; });
}

std::string SlurmTime(const std::string& text) {
  constexpr std::string_view kUnits = "dhms";
  constexpr std::array<int64_t, 4> kSeconds = {86400, 3600, 60, 1};
  int64_t total = 0;
  size_t unit = 0;  // the next unit must be at least this far in kUnits
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find_first_not_of("0123456789", begin);
    const size_t found = end < text.size() ? kUnits.find(text[end], unit) : kUnits.npos;
    const auto number = ParseInt(std::string_view(text).substr(begin, end - begin));
    if (found == kUnits.npos || !number || *number > 100'000'000) return text;
    total += *number * kSeconds[found];
    unit = found + 1;
    begin = end + 1;
  }
  if (unit == 0) return text;
  std::array<char, 64> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%ld-%02ld:%02ld:%02ld", total / 86400,
                total / 3600 % 24, total / 60 % 60, total % 60);
  return buffer.data();
}

Result<SubmitWords> SplitSubmit(const std::vector<std::string>& args) {
  return Splitter(args).Split();
}

}  // namespace ddprun::launcher
