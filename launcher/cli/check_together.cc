#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/read_value.h"
#include "rendezvous/backends.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;

// A file that each run writes to its folder.
constexpr std::string_view kResolvedConfig = "config.resolved.json";

Error NoRunFolder(const std::string& resume) {
  return Error{.code = Code::kUsage,
               .title = "NO RUN FOLDER",
               .where = "--resume",
               .what = "There is no " + std::string(kResolvedConfig) + " in " + resume +
                       " or in the two folders above it: it is neither a run's folder\n"
                       "nor a checkpoint in one.",
               .hint =
                   "Name the folder that a run has left, as runs/NAME. For a checkpoint that "
                   "lies elsewhere give the\n"
                   "config, too: ddprun --resume CHECKPOINT train.json.",
               .page = "no-run-folder"};
}

// torchrun uses c10d on one node for --standalone; with a single node it makes no difference.
void SettleStandalone(Options& options) {
  options.rdzv.rules.min_nodes = options.rdzv.rules.max_nodes = 1;
  options.rdzv.node_rank = 0;
  options.rdzv_backend = rendezvous::kStaticBackend.name;
  options.rdzv_endpoint.clear();
  options.rdzv.endpoint = {"127.0.0.1", 0};
}

Status SettleFixed(Options& options) {
  rendezvous::RendezvousOptions& rdzv = options.rdzv;
  rendezvous::JobRules& rules = rdzv.rules;
  if (rules.elastic()) {
    options.notes.push_back("--nnodes=" + std::to_string(rules.min_nodes) + ":" +
                            std::to_string(rules.max_nodes) + " waits for " +
                            std::to_string(rules.max_nodes) +
                            " nodes: only --rdzv_backend=c10d lets them come and go");
    rules.min_nodes = rules.max_nodes;
  }
  if (options.rdzv_endpoint.find(',') != std::string::npos) {
    return Contradict(
        "--rdzv_endpoint names several hosts, and --rdzv_backend=static meets at one.",
        "Add --rdzv_backend=c10d, or name one host.");
  }
  if (!options.rdzv_endpoint.empty()) {
    DDPRUN_ASSIGN(const rendezvous::HostPort given,
                  rendezvous::ParseHostPort(options.rdzv_endpoint, rdzv.endpoint.port));
    rdzv.endpoint.host = given.host;
    if (given.port != 0) rdzv.endpoint.port = given.port;
  }
  if (rules.max_nodes > 1 && rdzv.endpoint.port == 0) rdzv.endpoint.port = options.backend->port;
  if (rdzv.node_rank.value_or(0) < rules.max_nodes) return {};
  return BadValue("--node_rank", "--node_rank is " + std::to_string(*rdzv.node_rank) +
                                     ", but --nnodes is " + std::to_string(rules.max_nodes) +
                                     "; expected 0 to " + std::to_string(rules.max_nodes - 1) +
                                     ".");
}

// A majority of an even number of hosts outlives no more losses than one of one host less.
Status CheckHosts(const Options& options) {
  const std::vector<rendezvous::HostPort>& hosts = options.rdzv.hosts;
  for (const rendezvous::HostPort& host : hosts) {
    if (std::ranges::count(hosts, host) == 1) continue;
    return BadValue("--rdzv_endpoint", "--rdzv_endpoint names " + ToString(host) + " twice.");
  }
  if (hosts.size() % 2 == 1 && hosts.size() <= rendezvous::kMaxHosts) return {};
  return BadValue("--rdzv_endpoint",
                  "--rdzv_endpoint names " + std::to_string(hosts.size()) +
                      " hosts; expected one, or an odd number from 3 to " +
                      std::to_string(rendezvous::kMaxHosts) + ".",
                  "The leader needs the votes of more than half of the hosts, so two of them "
                  "outlive the loss of neither.\nAny machine with `ddprun store` can be one more.");
}

Status ReadHosts(Options& options) {
  rendezvous::RendezvousOptions& rdzv = options.rdzv;
  rdzv.hosts.clear();
  for (const std::string_view part : SplitAt(options.rdzv_endpoint, ',')) {
    DDPRUN_ASSIGN(auto host, rendezvous::ParseHostPort(TrimBlanks(part), options.backend->port));
    rdzv.hosts.push_back(std::move(host));
  }
  rdzv.endpoint = rdzv.hosts.front();
  if (rdzv.hosts.size() == 1) rdzv.hosts.clear();
  if (rdzv.hosts.empty()) return {};
  if (rdzv.is_host == true) {
    return Contradict(
        "--rdzv_conf=is_host=1 makes this node the host of the rendezvous, and "
        "--rdzv_endpoint names several hosts.",
        "Leave is_host out: each node finds its own address in the list.");
  }
  return CheckHosts(options);
}

Status SettleMeeting(Options& options) {
  rendezvous::RendezvousOptions& rdzv = options.rdzv;
  const bool alone = rdzv.rules.max_nodes == 1;
  rdzv.endpoint = {"localhost", alone ? uint16_t{0} : options.backend->port};
  if (!options.rdzv_endpoint.empty()) DDPRUN_TRY(ReadHosts(options));
  // A single node whose port no other node can know needs no c10d.
  if (!alone || rdzv.endpoint.port != 0) return {};
  SettleStandalone(options);
  options.backend = &rendezvous::kStaticBackend;
  return {};
}

Status SettleBackend(Options& options) {
  const rendezvous::Backend* const backend = rendezvous::FindBackend(options.rdzv_backend);
  if (backend == nullptr) {
    return Error{.code = Code::kUsage,
                 .title = "NO ETCD",
                 .where = "--rdzv_backend",
                 .what = "--rdzv_backend is \"" + options.rdzv_backend +
                         "\"; expected static or c10d: ddprun does not speak to etcd.",
                 .hint =
                     "Use --rdzv_backend=c10d with --rdzv_endpoint=HOST:PORT of one of the "
                     "nodes, which then does what etcd did.",
                 .page = "no-etcd"};
  }
  options.backend = backend;
  options.rdzv.rules.join_timeout = backend->join_timeout;
  DDPRUN_TRY(ReadRdzvConf(options));
  return backend->fixed ? SettleFixed(options) : SettleMeeting(options);
}

Status CheckSpares(const Options& options) {
  const bool can_replace = !options.backend->fixed && options.several_nodes();
  if (options.rdzv.rules.spares == 0 || options.standalone || can_replace) return {};
  return Contradict("--spares=" + std::to_string(options.rdzv.rules.spares) +
                        " is for several nodes that can be replaced.",
                    "Add --rdzv_backend=c10d and --nnodes=N with N of 2 or more, or leave --spares "
                    "out.");
}

// A batch script that requeues the job itself asks for 75 (launcher/batch/batch_job.cc).
Status CheckRequeue(const Options& options) {
  if (options.requeues == 0 || options.exit_code != ExitCodeStyle::kTorchrun) return {};
  return Contradict(
      "--requeue=" + std::to_string(options.requeues) +
          " may leave the requeue to the batch script by exit code 75, and --exit_code=torchrun "
          "makes it 1.",
      "Leave --exit_code out, or --requeue.");
}

bool IsTrainerConfig(const Options& options) {
  return !options.module && !options.no_python && !options.run_path &&
         options.target.ends_with(".json");
}

// Returns the run folder of `resume`, which is that folder or a checkpoint in it; "" means none.
std::string RunFolderOf(const std::string& resume) {
  std::error_code ignored;
  fs::path folder = fs::absolute(resume, ignored).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  for (const fs::path& at : {folder, folder.parent_path(), folder.parent_path().parent_path()}) {
    if (fs::exists(at / kResolvedConfig, ignored)) {
      return at == folder ? resume : fs::proximate(at, ignored).string();
    }
  }
  return "";
}

Status SettleResume(Options& options) {
  if (options.resume.empty()) return {};
  if (!options.sweep.empty()) {
    return Contradict("--resume goes on with one run and --sweep begins several.",
                      "Give one of them.");
  }
  if (options.target.empty()) {
    const std::string folder = RunFolderOf(options.resume);
    if (folder.empty()) return NoRunFolder(options.resume);
    options.target = (fs::path(folder) / kResolvedConfig).string();
  }
  // "./" makes it a path, also if it looks like a number.
  const bool has_slash = options.resume.find('/') != std::string::npos;
  options.overrides.insert(options.overrides.begin(),
                           "run.resume=" + (has_slash ? "" : std::string("./")) + options.resume);
  return {};
}

Status CheckTarget(const Options& options) {
  if (options.module && options.run_path) {
    return Contradict("--module names a module and --run_path a file.", "Give one of them.");
  }
  if (options.module && options.no_python) {
    return Contradict("--module runs Python and --no_python does not.", "Give one of them.");
  }
  if (options.target.empty()) {
    return Error{.code = Code::kUsage,
                 .title = "NO TARGET",
                 .what = "Nothing to run was given.",
                 .hint =
                     "Usage: ddprun [options] TARGET [args...]\n"
                     "  ddprun --nproc_per_node=4 train.json\n"
                     "  ddprun --nproc_per_node=4 train.py --lr 0.1",
                 .page = "no-target"};
  }
  const bool script = options.module || options.run_path || options.target.ends_with(".py");
  if (!options.use_env.value_or(true) && (!script || (options.no_python && !options.run_path))) {
    return Contradict("--use_env=0 passes --local-rank=N to Python scripts, and " + options.target +
                          " is not run as one.",
                      "Leave --use_env out, or write --local-rank='${local_rank}' yourself.");
  }
  return {};
}

Status CheckTrainerFlags(const Options& options) {
  if (options.sweep_jobs > 1 && options.sweep.empty()) {
    return Contradict(
        "--sweep_jobs is the number of a sweep's runs at the same time, and --sweep is "
        "missing.",
        "Add --sweep optimizer.learning_rate=1e-4,3e-4.");
  }
  if (options.sweep_runs > 0 && options.sweep.empty()) {
    return Contradict("--sweep_runs is the number of a sweep's runs, and --sweep is missing.",
                      "Add --sweep optimizer.learning_rate='loguniform(1e-5,1e-3)'.");
  }
  if (IsTrainerConfig(options)) return {};
  if (options.overrides.empty() && options.sweep.empty()) return {};
  const bool resumes = !options.resume.empty();
  const std::string flag = resumes ? "--resume" : options.overrides.empty() ? "--sweep" : "--set";
  const std::string use = resumes ? "is for trainer configs" : "changes keys of a trainer config";
  return Error{.code = Code::kUsage,
               .title = "NO TRAINER CONFIG",
               .where = flag,
               .what = flag + " " + use + " (.json), and " + options.target + " is none.",
               .hint = "Arguments of your own program go after TARGET.",
               .page = "no-trainer-config"};
}

}  // namespace

Error Contradict(std::string what, std::string hint) {
  return Error{.code = Code::kUsage,
               .title = "FLAGS CONTRADICT",
               .what = std::move(what),
               .hint = std::move(hint),
               .page = "flags-contradict"};
}

Status CheckTogether(Options& options) {
  if (options.standalone) SettleStandalone(options);
  DDPRUN_TRY(SettleResume(options));
  DDPRUN_TRY(CheckTarget(options));
  DDPRUN_TRY(SettleBackend(options));
  DDPRUN_TRY(CheckSpares(options));
  DDPRUN_TRY(CheckRequeue(options));
  return CheckTrainerFlags(options);
}

}  // namespace ddprun::launcher
