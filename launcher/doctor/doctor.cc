#include "launcher/doctor/doctor.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <iterator>

#include "base/text.h"
#include "launcher/cli/target.h"
#include "launcher/doctor/checks.h"

namespace ddprun::launcher {

namespace {

constexpr const char* kHelp =
    R"(What this machine can do, and what is missing: one line each, with the remedy.

Usage: ddprun doctor [--gpu] [--nodes] [--json]

  --gpu     training on GPUs is asked for: what it needs and is not there is missing
  --nodes   so is training on several nodes
  --json    the same for programs

Exit status: 0 when nothing is missing, 1 when something is. Nothing is changed on the machine.
)";

struct DoctorOptions {
  IntendedUse use;
  bool json = false;
  bool help = false;
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
      return Error{.code = Code::kUsage,
                   .title = "UNKNOWN FLAG",
                   .where = arg,
                   .what = "ddprun doctor has --gpu, --nodes and --json.",
                   .hint = "A program that is named \"doctor\" is started with ddprun ./doctor.",
                   .page = "unknown-flag"};
    }
  }
  return options;
}

void Append(std::vector<Finding> more, std::vector<Finding>& findings) {
  std::move(more.begin(), more.end(), std::back_inserter(findings));
}

std::string Summary(const std::vector<Finding>& findings, const MachineFacts& machine, int gpus) {
  if (!NothingMissing(findings)) return "Something is missing, see above.\n";
  return "Nothing is missing to train here on " + CountText(machine.cores, "core") +
         (gpus > 0 ? " and " + CountText(gpus, "GPU") : "") + ".\n";
}

}  // namespace

Result<int> RunDoctor(const std::vector<std::string>& args, const Environment& env) {
  DDPRUN_ASSIGN(const DoctorOptions options, ParseDoctorOptions(args));
  if (options.help) {
    std::fputs(kHelp, stdout);
    return 0;
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
  const bool color = ::isatty(STDOUT_FILENO) == 1 && !env.Get("NO_COLOR");
  const bool usable = !trainer.module.empty() && driver;
  const int gpus = usable ? CountVisibleGpus(driver->gpus, visible) : 0;
  std::printf("ddprun " DDPRUN_VERSION " on %s, %s %s %s\n\n%s\n%s", network.host.c_str(),
              kernel.sysname, kernel.release, kernel.machine, DoctorText(findings, color).c_str(),
              Summary(findings, machine, gpus).c_str());
  return NothingMissing(findings) ? 0 : 1;
}

}  // namespace ddprun::launcher
