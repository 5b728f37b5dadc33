// The command line: torchrun's names, with dashes or underscores, and PET_* variables as defaults.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "base/result.h"
#include "launcher/cli/streams.h"
#include "rendezvous/backends.h"

namespace ddprun::launcher {

enum class Label { kAuto, kAlways, kNever };
enum class ExitCodeStyle { kWorker, kTorchrun };  // --exit_code

// A first word that is not a TARGET: "ddprun doctor".
struct Subcommand {
  std::string_view name;
  std::string_view arguments;  // as the usage shows them
  std::string_view help;       // a few words without a full stop
  // `args` are the words after `name`. Returns the exit code, or an Error to show.
  Result<int> (*run)(const std::vector<std::string>& args, const Environment& env);
};

// The part of this agent in a host that it shares with other agents of the job: it has one of the
// host's workers.
struct HostShare {
  int first_local_rank = 0;  // LOCAL_RANK of this agent's worker
  int workers = 1;           // of all agents of the host
  int host = 0;              // rank of the host among `hosts`
  int hosts = 1;
  int threads = 0;  // of a worker; 0 means that each agent has cores of its own
};

// How a job ended, for the code that has asked ddprun to run it.
struct JobOutcome {
  int exit_code = 0;                    // before --exit_code changes it
  std::optional<int> worker_code = {};  // the first other than 0 here, if a signal stopped the job
  bool interrupted = false;             // by Ctrl-C (SIGINT) or SIGQUIT
  bool lost_node = false;               // another node failed, not one of its workers
  bool may_requeue = false;             // this node speaks for the job: no other one has to
};

struct Options {
  std::set<std::string, std::less<>> given;  // names of the flags that the user has given

  // Workers.
  std::string nproc_per_node = "1";  // number, auto, cpu, gpu or xpu: see device_count.h
  std::string numa_binding;          // "", "node", "socket", "exclusive" or "core-complex"
  bool virtual_local_rank = false;
  std::optional<HostShare> host_share;  // set if a batch system starts several agents on a host

  // Rendezvous. CheckTogether() reads the fields that are "as given" into `rdzv`.
  rendezvous::RendezvousOptions rdzv;
  const rendezvous::Backend* backend = &rendezvous::kStaticBackend;
  std::string rdzv_backend = "static";           // as given
  std::string rdzv_endpoint;                     // as given: host[:port]
  std::string network_interface;                 // as given: a name or a network
  std::map<std::string, std::string> rdzv_conf;  // as given
  bool standalone = false;                       // one node; nnodes and master_* do not count
  bool in_cluster = false;  // a batch system fills in what the user has not given

  // Failures.
  std::chrono::milliseconds monitor_interval{100};  // has no effect: ddprun does not poll
  // From SIGTERM to SIGKILL; nullopt means AgentPlan::grace().
  std::optional<std::chrono::milliseconds> shutdown_timeout;
  std::optional<std::chrono::milliseconds> exit_barrier_timeout;  // nullopt means no limit
  std::optional<std::chrono::milliseconds> hang_timeout;          // nullopt means no detection
  std::vector<int> signals_to_handle{SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  std::string signals_text = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";  // signals_to_handle as given
  ExitCodeStyle exit_code = ExitCodeStyle::kWorker;
  std::string report_file;  // "" means none
  int requeues = 0;         // --requeue: how often SLURM may take the job back; 0 means never
  std::shared_ptr<JobOutcome> outcome = nullptr;  // filled at the job's end; nullptr: not wanted

  // Output.
  std::string log_dir;  // "" means a temporary folder, "/dev/null" none
  StreamsPerRank redirects;
  StreamsPerRank tee;
  std::set<int> local_ranks_filter;  // empty means all
  std::vector<std::string> duplicate_stdout_filters;
  std::vector<std::string> duplicate_stderr_filters;
  Label label = Label::kAuto;
  LogLevel log_level = LogLevel::kInfo;  // of ddprun's own lines
  bool log_time = false;                 // ddprun's lines begin with the time
  std::string log_file;                  // gets ddprun's lines, too; "" means none

  // Target.
  bool module = false;     // -m: target is a Python module
  bool no_python = false;  // target is executed without Python
  bool run_path = false;   // runpy.run_path runs the script
  // --use_env=0: scripts get --local-rank=N, as under torch.distributed.launch without --use_env.
  std::optional<bool> use_env;
  std::vector<std::string> overrides;  // --set a.b=c, for a trainer config
  std::vector<std::string> sweep;      // --sweep a.b=1,2, for a trainer config
  int sweep_runs = 0;                  // drawn from ranges of `sweep`; 0 means all combinations
  int64_t sweep_seed = 0;              // of these draws
  int sweep_jobs = 1;                  // runs of `sweep` at the same time
  std::string resume;                  // a run folder, or a checkpoint in it; "" means none
  bool dry_run = false;
  std::vector<std::string> preload;  // modules that a worker template imports; empty: no template
  std::string target;
  std::vector<std::string> target_args;

  std::vector<std::string> notes;  // lines for the user about flags that change nothing

  bool several_nodes() const { return rdzv.rules.max_nodes > 1; }
};

// The answer to --help and similar flags, to print on stdout before exit 0.
struct TextToPrint {
  std::string text;
};
struct VersionsToPrint {};

// `args` are the words without the program's name. All words after the target belong to the target.
// `subcommands` are for help and completion. `complete` may fill in options that the user has not
// given, before they are checked together. Errors are kUsage.
using CompleteOptionsFunction = Status (*)(const Environment& env, Options& options);
Result<std::variant<Options, TextToPrint, VersionsToPrint>> ParseOptions(
    const std::vector<std::string>& args,
    const Environment& env,
    std::span<const Subcommand> subcommands = {},
    CompleteOptionsFunction complete = nullptr);

}  // namespace ddprun::launcher
