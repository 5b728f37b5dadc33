// The command line: torchrun's names, in both spellings, with PET_* variables as defaults.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "base/result.h"
#include "rendezvous/backend.h"

namespace ddprun::launcher {

// Which of a worker's streams: torchrun's numbers for -r and -t.
struct Streams {
  bool out = false;
  bool err = false;
};

// "3" or "0:1,1:2": one value for every local rank, or one each; ranks not named get none.
struct StreamsPerRank {
  Streams all;
  std::map<int, Streams> of_rank = {};

  Streams Of(int local_rank) const {
    const auto found = of_rank.find(local_rank);
    return found == of_rank.end() ? all : found->second;
  }
};

enum class Label { kAuto, kAlways, kNever };
enum class ExitCodeStyle { kWorker, kTorchrun };  // --exit_code

// A word that stands in front instead of TARGET.
struct Subcommand {
  std::string_view name;
  std::string_view arguments;  // as its usage shows them
  std::string_view help;       // a few words without a full stop
  // `args` behind the word. The exit code, or an Error to show.
  Result<int> (*run)(const std::vector<std::string>& args, const Environment& env);
};

struct Options {
  // Where workers run.
  std::string nproc_per_node = "1";  // number, auto, cpu, gpu or xpu: see device_count.h
  std::string numa_binding;          // empty, "node", "socket", "exclusive" or "core-complex"
  bool virtual_local_rank = false;

  // How nodes find each other. What is "as given" has become `rdzv` once all options are read.
  rendezvous::RendezvousOptions rdzv;
  const rendezvous::Backend* backend = &rendezvous::kStaticBackend;
  std::string rdzv_backend = "static";           // as given
  std::string rdzv_endpoint;                     // as given: host[:port]
  std::map<std::string, std::string> rdzv_conf;  // as given
  bool standalone = false;                       // one node, whatever nnodes and master_* say

  // What happens when something fails.
  std::chrono::milliseconds monitor_interval{100};  // accepted: ddprun needs no polling
  // SIGTERM to SIGKILL; unset: AgentPlan::grace.
  std::optional<std::chrono::milliseconds> shutdown_timeout;
  std::optional<std::chrono::milliseconds> exit_barrier_timeout;  // unset: no limit
  std::optional<std::chrono::milliseconds> hang_timeout;          // unset: no hang detection
  std::vector<int> signals_to_handle{SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  std::string signals_text = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";  // the same, as given
  ExitCodeStyle exit_code = ExitCodeStyle::kWorker;
  std::string report_file;  // empty: none

  // Output.
  std::string log_dir;  // empty: a temporary folder that is removed; "/dev/null": none at all
  StreamsPerRank redirects;
  StreamsPerRank tee;
  std::set<int> local_ranks_filter;  // empty: all
  std::vector<std::string> duplicate_stdout_filters;
  std::vector<std::string> duplicate_stderr_filters;
  Label label = Label::kAuto;
  LogLevel log_level = LogLevel::kInfo;  // of ddprun's own lines
  bool log_time = false;                 // in front of each
  std::string log_file;                  // they go there too; empty: none

  // What is run.
  bool module = false;     // -m: target is a Python module
  bool no_python = false;  // target is run as it is
  bool run_path = false;   // the script runs by runpy.run_path
  // --use_env=0: scripts get --local-rank=N, as under torch.distributed.launch without --use_env.
  std::optional<bool> use_env;
  std::vector<std::string> overrides;  // --set a.b=c, for a trainer config
  std::vector<std::string> sweep;      // --sweep a.b=1,2, for a trainer config
  std::string resume;                  // a run folder, or a checkpoint in one; empty: none
  bool dry_run = false;
  std::string target;
  std::vector<std::string> target_args;

  // For the user, one line each: flags that were accepted but change nothing.
  std::vector<std::string> notes;

  bool several_nodes() const { return rdzv.rules.max_nodes > 1; }
};

// --help and the like: print this on stdout and exit 0.
struct TextToPrint {
  std::string text;
};
// --version.
struct VersionsToPrint {};

// `args` without the program's own name. Everything after the target belongs to the target.
// Errors are kUsage and name the flag or variable, what was found and what is accepted.
// `subcommands`: for help and completion.
Result<std::variant<Options, TextToPrint, VersionsToPrint>> ParseOptions(
    const std::vector<std::string>& args,
    const Environment& env,
    std::span<const Subcommand> subcommands = {});

}  // namespace ddprun::launcher
