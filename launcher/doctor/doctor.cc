#include "launcher/doctor/doctor.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <iterator>

#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "launcher/cli/target.h"
#include "launcher/cluster/cluster.h"
#include "launcher/doctor/checks.h"
#include "launcher/doctor/test_nodes.h"

namespace ddprun::launcher {

namespace {

constexpr const char* kHelp =
    R"(What this machine can do, and what is missing: one line each, with the remedy.

Usage: ddprun doctor [--gpu] [--nodes] [--json]
       srun ddprun doctor --nodes
       ddprun doctor --nodes --nnodes=N --node_rank=I --master_addr=HOST   on each node

  --gpu     training on GPUs is asked for: what it needs and is not there is missing
  --nodes   so is training on several nodes. If several nodes are given, by flags of a
            job or by srun or mpirun, they meet and test each pair instead: names,
            connections, latency, bandwidth, clocks, MTU, versions, users, the folder
            in which they are. The first node prints the result, the bad host or link
            first. A node that does not come is named after a minute.
  --json    the same for programs

Exit status: 0 when nothing is missing, 1 when something is. Nothing is changed on the machine.
)";

struct DoctorOptions {
  IntendedUse use;
  bool json = false;
  bool help = false;
  std::vector<std::string> job_flags = {};  // for --nodes: where the nodes meet
};

Result<DoctorOptions> ParseDoctorOptions(const std::vector<std::string>& args) {
  DoctorOptions options;
  for (const std::string& arg : args) {
    if (arg == "--gpu") {
      options.use.gpu = true;
    } else if (arg == "--nodes") {
      options.use.nodes = true;
    } else if (arg == "--json") {
      options.json = true;
    } else if (arg == "--help" || arg == "-h") {
      options.help = true;
    } else {
      options.job_flags.push_back(arg);
    }
  }
  if (options.use.nodes || options.job_flags.empty()) return options;
  return Error{.code = Code::kUsage,
               .title = "UNKNOWN FLAG",
               .where = options.job_flags.front(),
               .what = "ddprun doctor has --gpu, --nodes and --json.",
               .hint = "A program that is named \"doctor\" is started with ddprun ./doctor.",
               .page = "unknown-flag"};
}

void Append(std::vector<Finding> more, std::vector<Finding>& findings) {
  std::move(more.begin(), more.end(), std::back_inserter(findings));
}

std::string Summary(const std::vector<Finding>& findings, const MachineFacts& machine, int gpus) {
  if (!NothingMissing(findings)) return "Something is missing, see above.\n";
  return "Nothing is missing to train here on " + CountText(machine.cores, "core") +
         (gpus > 0 ? " and " + CountText(gpus, "GPU") : "") + ".\n";
}

// Returns the flags of a job, completed from the environment of srun or mpirun.
Result<Options> ReadJobFlags(std::vector<std::string> flags, const Environment& env) {
  flags.emplace_back("doctor");  // a job needs a target
  DDPRUN_ASSIGN(auto parsed, ParseOptions(flags, env, {}, CompleteOptions));
  auto* options = std::get_if<Options>(&parsed);
  return options != nullptr ? std::move(*options) : Options();
}

// A test of this machine alone would not tell what the user has asked for.
Error OneNode(const std::string& word) {
  return Error{.code = Code::kUsage,
               .title = "ONE NODE",
               .where = word,
               .what = "ddprun doctor --nodes tests several nodes, and is not told where they are.",
               .hint =
                   "Start it on each node: srun ddprun doctor --nodes, or on each of N hosts\n"
                   "ddprun doctor --nodes --nnodes=N --node_rank=I --master_addr=HOST. It has "
                   "no --hostfile.\nWithout more flags, --nodes tests this machine alone.",
               .page = "one-node"};
}

// Tests all nodes of `job`. Returns the exit code of this node.
Result<int> RunOnNodes(const Options& job, const Environment& env, bool json) {
  // One node of a host tests it.
  if (job.host_share && job.host_share->first_local_rank > 0) return 0;
  const Log log = Log::ToStderr({.name = "ddprun", .level = job.log_level, .time = job.log_time});
  for (const std::string& line : job.notes) log.Info(line);
  const std::vector<std::string> versions = SplitLines(ReadTrainer(env, ProgramFolder()).versions);
  DDPRUN_ASSIGN(const NodesOutcome outcome,
                TestNodes(job, env, {.ddprun = DDPRUN_VERSION, .trainer = FormatList(versions)}));
  if (!outcome.first) return 0;
  const std::vector<Finding> findings = JudgeNodes(outcome.test);
  const int code = NothingMissing(findings) ? 0 : 1;
  if (json) {
    nlohmann::json all = nlohmann::json::parse(DoctorJson(findings, outcome.test.nodes[0].host));
    all["nodes"] = outcome.test.nodes;
    all["links"] = outcome.test.links;
    std::printf("%s\n", all.dump(2).c_str());
    return code;
  }
  const bool color = WantsColor(env, STDOUT_FILENO);
  std::printf("%s\n%s", DoctorText(findings, color).c_str(), NodesTable(outcome.test).c_str());
  return code;
}

}  // namespace

Result<int> RunDoctor(const std::vector<std::string>& args, const Environment& env) {
  DDPRUN_ASSIGN(const DoctorOptions options, ParseDoctorOptions(args));
  if (options.help) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (options.use.nodes) {
    DDPRUN_ASSIGN(const Options job, ReadJobFlags(options.job_flags, env));
    const bool by_hostfile = job.given.contains("hostfile");
    if (job.rdzv.rules.max_nodes > 1 && !by_hostfile) return RunOnNodes(job, env, options.json);
    if (!options.job_flags.empty()) return OneNode(options.job_flags.front());
  }
  const MachineFacts machine = ReadMachine(env);
  const NetworkFacts network = ReadNetwork();
  const Result<NvidiaDriver> driver = QueryNvidiaDriver();
  const TrainerFacts trainer = ReadTrainer(env, ProgramFolder());
  const auto visible = env.Get("CUDA_VISIBLE_DEVICES");
  std::vector<Finding> findings = CheckMachine(machine);
  Append(CheckTrainer(trainer), findings);
  Append(CheckGpus(driver, visible, trainer, options.use), findings);
  Append(CheckNetwork(network, options.use, machine.locked_memory), findings);
  if (options.json) {
    std::fputs(DoctorJson(findings, network.host).c_str(), stdout);
    return NothingMissing(findings) ? 0 : 1;
  }
  utsname kernel = {};
  ::uname(&kernel);
  const bool color = WantsColor(env, STDOUT_FILENO);
  const bool usable = !trainer.module.empty() && driver;
  const int gpus = usable ? CountVisibleGpus(driver->gpus, visible) : 0;
  std::printf("ddprun " DDPRUN_VERSION " on %s, %s %s %s\n\n%s\n%s", network.host.c_str(),
              kernel.sysname, kernel.release, kernel.machine, DoctorText(findings, color).c_str(),
              Summary(findings, machine, gpus).c_str());
  return NothingMissing(findings) ? 0 : 1;
}

}  // namespace ddprun::launcher
