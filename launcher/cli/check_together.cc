#include "launcher/cli/command_line.h"
#include "rendezvous/elastic/backends.h"

namespace ddprun::launcher {

namespace {

Error Contradict(std::string what, std::string hint) {
  return Error{.code = Code::kUsage,
               .title = "FLAGS CONTRADICT",
               .where = "",
               .what = std::move(what),
               .hint = std::move(hint),
               .page = "flags-contradict"};
}

// torchrun makes c10d of it, on one node; without others to wait for there is no difference.
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
  if (!options.rdzv_endpoint.empty()) {
    DDPRUN_ASSIGN(const rendezvous::HostPort given,
                  rendezvous::ParseHostPort(options.rdzv_endpoint, rdzv.endpoint.port));
    rdzv.endpoint.host = given.host;
    if (given.port != 0) rdzv.endpoint.port = given.port;
  }
  if (rules.max_nodes > 1 && rdzv.endpoint.port == 0) rdzv.endpoint.port = options.backend->port;
  if (rdzv.node_rank.value_or(0) < rules.max_nodes) return {};
  return Error{.code = Code::kUsage,
               .title = "BAD VALUE",
               .where = "--node_rank",
               .what = "--node_rank is " + std::to_string(*rdzv.node_rank) + ", but --nnodes is " +
                       std::to_string(rules.max_nodes) + "; expected 0 to " +
                       std::to_string(rules.max_nodes - 1) + ".",
               .hint = "",
               .page = "bad-value"};
}

Status SettleMeeting(Options& options) {
  rendezvous::RendezvousOptions& rdzv = options.rdzv;
  const bool alone = rdzv.rules.max_nodes == 1;
  rdzv.endpoint = {"localhost", alone ? uint16_t{0} : options.backend->port};
  if (!options.rdzv_endpoint.empty()) {
    DDPRUN_ASSIGN(rdzv.endpoint,
                  rendezvous::ParseHostPort(options.rdzv_endpoint, options.backend->port));
  }
  // One node that nobody can find needs no others.
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

bool IsTrainerConfig(const Options& options) {
  return !options.module && !options.no_python && !options.run_path &&
         options.target.ends_with(".json");
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
                 .where = "",
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
  if (IsTrainerConfig(options)) return {};
  if (options.overrides.empty() && options.sweep.empty()) return {};
  const std::string flag = options.overrides.empty() ? "--sweep" : "--set";
  return Error{.code = Code::kUsage,
               .title = "NO TRAINER CONFIG",
               .where = flag,
               .what = flag + " changes keys of a trainer config (.json), and " + options.target +
                       " is none.",
               .hint = "Arguments of your own program go after TARGET.",
               .page = "no-trainer-config"};
}

}  // namespace

Status CheckTogether(Options& options) {
  if (options.standalone) SettleStandalone(options);
  DDPRUN_TRY(CheckTarget(options));
  DDPRUN_TRY(SettleBackend(options));
  return CheckTrainerFlags(options);
}

}  // namespace ddprun::launcher
