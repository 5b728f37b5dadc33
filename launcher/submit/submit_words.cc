#include "launcher/submit/submit_words.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "base/env.h"
#include "base/text.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/flag.h"

namespace ddprun::launcher {

namespace {

// Options of sbatch: the long name, and behind a colon the letter. --requeue stands only in
// ddprun's table, because the batch file has sbatch's in any case.
constexpr std::string_view kWithValue =
    "account:A acctg_freq array:a batch bb bbf begin:b clusters:M cluster_constraint comment "
    "constraint:C container core_spec:S cores_per_socket cpu_freq cpus_per_gpu cpus_per_task:c "
    "deadline delay_boot dependency:d distribution error:e exclude:x export export_file "
    "extra_node_info:B gid gpu_bind gpu_freq gpus:G gpus_per_node gpus_per_socket gpus_per_task "
    "gres gres_flags hint input:i job_name:J kill_on_invalid_dep licenses:L mail_type mail_user "
    "mcs_label mem mem_bind mem_per_cpu mem_per_gpu mincpus network nodefile:F nodelist:w nodes:N "
    "ntasks ntasks_per_core ntasks_per_gpu ntasks_per_node ntasks_per_socket open_mode output:o "
    "partition:p power prefer priority profile qos:q reservation signal sockets_per_node switches "
    "thread_spec threads_per_core time:t time_min tmp tres_per_task uid wckey";
// Options without a value, or with one behind "=" only.
constexpr std::string_view kSwitches =
    "contiguous exclusive get_user_env hold:H ignore_pbs nice no_kill:k no_requeue overcommit:O "
    "oversubscribe:s propagate reboot spread_job use_min_nodes";

// Options that have no place in a batch file that ddprun writes.
constexpr auto kRefused = std::to_array<KnownFlags>({
    {"wrap", "The batch file is ddprun's: give the program as TARGET."},
    {"test_only", "--dry_run shows the file and submits nothing."},
    {"wait:W", "--follow waits for the job's end and returns its exit code."},
    {"chdir:D", "The job runs in the folder of this command: cd there first."},
    {"parsable quiet:Q verbose:v usage version:V print_completion print_man_page", "Leave it out."},
    {"node_rank standalone master_addr master_port",
     "Leave it out: srun starts ddprun on each node, where it finds its place by itself."},
    {"m:m", "Write --module (of ddprun) or --distribution (of sbatch) in full."},
    {"n:n", "Write --nproc_per_node (of ddprun) or --ntasks (of sbatch) in full."},
});

constexpr std::string_view kOfSbatch = "sbatch's";  // Flag::help
constexpr std::string_view kFollow = "follow";

void AddFlags(std::string_view words,
              std::string_view value,
              std::string_view help,
              std::vector<Flag>& flags) {
  for (const std::string_view word : SplitAt(words, ' ')) {
    const std::string_view name = word.substr(0, word.find(':'));
    const std::string_view letter = word.substr(std::min(name.size() + 1, word.size()));
    const auto same = [&](const Flag& flag) { return flag.name == name; };
    std::erase_if(flags, same);
    flags.push_back({.name = name,
                     .short_names = letter,
                     .value = value,
                     .of_torchrun = false,
                     .help = help,
                     .expected = "a value, see man sbatch"});
  }
}

std::vector<Flag> FlagsOfSubmit() {
  std::vector<Flag> flags = AllFlags();
  for (Flag& flag : flags) {
    if (flag.name != "help") flag.short_names = {};
    flag.of_torchrun = false;  // a prefix must be unique among the options of both programs
  }
  AddFlags(kWithValue, "VALUE", kOfSbatch, flags);
  AddFlags(kSwitches, "", kOfSbatch, flags);
  AddFlags(kFollow, "", "", flags);
  for (const KnownFlags& row : kRefused) AddFlags(row.words, "", row.answer, flags);
  return flags;
}

std::string Spelled(std::string_view text, char from, char to) {
  std::string result(text);
  std::ranges::replace(result, from, to);
  return result;
}

Error Contradict(const std::string& where, std::string what, std::string hint) {
  return Error{.code = Code::kUsage,
               .title = "FLAGS CONTRADICT",
               .where = where,
               .what = std::move(what),
               .hint = std::move(hint),
               .page = "flags-contradict"};
}

Status Refuse(const GivenFlag& given, const SubmitWords& words) {
  const std::string name =
      (given.flag.name.size() > 1 ? "--" : "-") + Spelled(given.flag.name, '_', '-');
  for (const KnownFlags& row : kRefused) {
    if (row.answer != given.flag.help) continue;
    return Error{.code = Code::kUsage,
                 .title = "UNKNOWN FLAG",
                 .where = name,
                 .what = "ddprun submit does not take " + name + ".",
                 .hint = std::string(row.answer),
                 .page = "unknown-flag"};
  }
  if (given.value.find_first_of("\r\n") != std::string::npos) {
    return BadValue(name, "The value of " + name + " has a line end.");
  }
  if ((given.flag.name != "nodes" && given.flag.name != "nnodes") || !words.HasAny("nodes")) {
    return {};
  }
  return Contradict(name, "The number of nodes is given twice.",
                    "Give it once: --nodes=N, or --nnodes=MIN:MAX for an elastic job.");
}

void Add(const GivenFlag& given, SubmitWords& words) {
  const std::string_view name = given.flag.name;
  const bool is_switch = given.flag.value.empty() && given.value == "1";
  const std::string value = is_switch ? "" : "=" + given.value;
  if (name == "help") {
    words.help = true;
  } else if (name == "dry_run") {
    words.dry_run = true;
  } else if (name == kFollow) {
    words.follow = true;
  } else if (name == "time" || name == "time_min") {
    words.sbatch.push_back("--" + Spelled(name, '_', '-') + "=" + SlurmTime(given.value));
  } else if (given.flag.help == kOfSbatch) {
    words.sbatch.push_back("--" + Spelled(name, '_', '-') + value);
  } else {
    const size_t colon = name == "nnodes" ? given.value.find(':') : std::string::npos;
    const bool elastic = colon != std::string::npos;
    words.outlives_nodes = words.outlives_nodes || elastic;
    // A job of SLURM never grows, so an elastic one begins with MAX nodes.
    if (name == "nnodes") words.sbatch.push_back("--nodes=" + given.value.substr(colon + 1));
    // srun's variables have a fixed number of nodes.
    if (name != "nnodes" || elastic) words.ddprun.push_back("--" + std::string(name) + value);
  }
}

// Adds the nodes of --spares to those that ddprun's --nnodes has named. sbatch's --nodes has all.
Status AddSpares(bool nnodes_given, SubmitWords& words) {
  const int64_t spares = ParseInt(ValueAmong(words.ddprun, "spares")).value_or(0);
  if (spares <= 0) return {};
  words.outlives_nodes = true;
  auto nodes = words.Nodes();
  if (!nodes) return {};
  for (std::string& option : words.sbatch) {
    if (!nnodes_given || !option.starts_with("--nodes=")) continue;
    *nodes += spares;
    option = "--nodes=" + std::to_string(*nodes);
  }
  if (*nodes - spares >= 2) return {};
  return Contradict("--spares",
                    "The job has " + CountText(*nodes, "node") + ", of which --spares=" +
                        std::to_string(spares) + " wait for the loss of another.",
                    "At least 2 nodes train: give --nodes=" + std::to_string(spares + 2) +
                        " or more, or leave --spares out.");
}

// Returns how many tasks sbatch starts on each node, or on some; 1 if that depends on more than the
// options say.
int64_t TasksPerNode(const SubmitWords& words) {
  if (const auto tasks = ParseInt(ValueAmong(words.sbatch, "ntasks-per-node"))) return *tasks;
  const auto tasks = ParseInt(ValueAmong(words.sbatch, "ntasks"));
  const auto nodes = words.Nodes();
  if (!tasks || !nodes || *nodes < 1 || !words.HasAny("nodes")) return 1;
  return (*tasks + *nodes - 1) / *nodes;
}

// Refuses what an agent of the job would refuse (launcher/cluster/complete_options.cc), before the
// job waits for hours.
Status CheckTasks(const SubmitWords& words) {
  const int64_t tasks = TasksPerNode(words);
  const std::string workers = ValueAmong(words.ddprun, "nproc_per_node");
  const std::string agents = "sbatch starts " + CountText(tasks, "task") + " a node";
  if (tasks <= 1) return {};
  if (!ValueAmong(words.ddprun, "nnodes").empty()) {
    return Contradict("--nnodes", agents + ", and an elastic job needs one agent a node.",
                      "Leave --ntasks and --ntasks-per-node out; --nproc_per_node=" +
                          std::to_string(tasks) + " starts as many workers.");
  }
  if (workers.empty() || workers == "1" || workers == std::to_string(tasks)) return {};
  return Contradict("--nproc_per_node",
                    agents +
                        ", each of which is an agent with one worker,\nand --nproc_per_node is " +
                        workers + ".",
                    "Leave --nproc_per_node out, or --ntasks and --ntasks-per-node.");
}

}  // namespace

std::string ValueAmong(const std::vector<std::string>& words, std::string_view name) {
  const std::string option = "--" + std::string(name) + "=";
  std::string value;  // the last one counts
  for (const std::string& word : words) {
    if (word.starts_with(option)) value = word.substr(option.size());
  }
  return value;
}

std::optional<int64_t> SubmitWords::Nodes() const {
  return HasAny("nodes") ? ParseInt(ValueAmong(sbatch, "nodes")) : std::optional<int64_t>(1);
}

bool SubmitWords::HasAny(std::string_view names) const {
  return std::ranges::any_of(sbatch, [&](const std::string& option) {
    const std::string name = option.substr(2, option.find('=') - 2);
    const auto all = SplitAt(names, ' ');
    return std::ranges::find(all, name) != all.end();
  });
}

std::string SlurmTime(const std::string& text) {
  constexpr std::string_view kUnits = "dhms";
  constexpr std::array<int64_t, 4> kSeconds = {86400, 3600, 60, 1};
  int64_t total = 0;
  size_t unit = 0;  // units come in this order
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
  DDPRUN_ASSIGN(const SplitArgs split, SplitFlags(args, FlagsOfSubmit()));
  SubmitWords words;
  for (const GivenFlag& given : split.flags) {
    DDPRUN_TRY(Refuse(given, words));
    Add(given, words);
  }
  const auto is_nnodes = [](const GivenFlag& given) { return given.flag.name == "nnodes"; };
  DDPRUN_TRY(AddSpares(std::ranges::any_of(split.flags, is_nnodes), words));
  DDPRUN_TRY(CheckTasks(words));
  words.target.assign(args.begin() + static_cast<std::ptrdiff_t>(split.target_index), args.end());
  return words;
}

}  // namespace ddprun::launcher
