#include "launcher/cli/check_together.h"

#include "launcher/cli/rdzv_conf.h"
#include "rendezvous/net/address.h"

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
  options.min_nodes = 1;
  options.max_nodes = 1;
  options.node_rank = 0;
  options.rdzv_backend = "static";
  options.rdzv_endpoint.clear();
  options.master_addr = "127.0.0.1";
  options.master_port.reset();
}

void SettleStatic(Options& options) {
  if (options.min_nodes < options.max_nodes) {
    options.notes.push_back("--nnodes=" + std::to_string(options.min_nodes) + ":" +
                            std::to_string(options.max_nodes) + " waits for " +
                            std::to_string(options.max_nodes) +
                            " nodes: only --rdzv_backend=c10d lets them come and go");
    options.min_nodes = options.max_nodes;
  }
  if (options.rdzv_endpoint.empty()) return;
  const rendezvous::HostPort endpoint = *rendezvous::ParseHostPort(options.rdzv_endpoint);
  options.master_addr = endpoint.host;
  if (endpoint.port != 0) options.master_port = endpoint.port;
}

Status CheckBackend(Options& options) {
  if (options.rdzv_backend.starts_with("etcd")) {
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
  const bool is_static = options.rdzv_backend == "static";
  if (is_static) SettleStatic(options);
  if (is_static && options.node_rank.value_or(0) >= options.max_nodes) {
    return Error{.code = Code::kUsage,
                 .title = "BAD VALUE",
                 .where = "--node_rank",
                 .what = "--node_rank is " + std::to_string(*options.node_rank) +
                         ", but --nnodes is " + std::to_string(options.max_nodes) +
                         "; expected 0 to " + std::to_string(options.max_nodes - 1) + ".",
                 .hint = "",
                 .page = "bad-value"};
  }
  return CheckRdzvConf(options.rdzv_conf, options.notes);
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
  DDPRUN_TRY(CheckBackend(options));
  return CheckTrainerFlags(options);
}

}  // namespace ddprun::launcher
