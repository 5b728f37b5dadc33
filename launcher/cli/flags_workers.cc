// Flags for the number of workers on a node, and for their CPUs.
#include "launcher/cli/flag.h"
#include "launcher/cli/read_value.h"

namespace ddprun::launcher {

namespace {

bool ReadProcesses(std::string_view text, Options& options) {
  int value = 0;
  const bool word = text == "auto" || text == "cpu" || text == "gpu" || text == "xpu";
  if (!word && !ReadBounded(text, 1, rendezvous::kMaxLocalWorkers, value)) return false;
  options.nproc_per_node = text;
  return true;
}

bool ReadNumaBinding(std::string_view text, Options& options) {
  for (const std::string_view mode : {"node", "socket", "exclusive", "core-complex"}) {
    if (text != mode && !(text == "core_complex" && mode == "core-complex")) continue;
    options.numa_binding = mode;
    return true;
  }
  return false;
}

}  // namespace

std::vector<Flag> WorkerFlags() {
  return {
      {.name = "nproc_per_node",
       .short_names = "n np ppn",
       .variable = "PET_NPROC_PER_NODE",
       .value = "N",
       .help = "Workers on this node: a number, auto (GPUs if any, else cores), gpu, xpu or cpu "
               "(default 1)",
       .expected = "a number from 1 to 4096, or one of auto, cpu, gpu, xpu",
       .completion = Completion::kChoices,
       .choices = "auto gpu xpu cpu 1 2 4 8",
       .read = ReadProcesses},
      {.name = "role",
       .variable = "PET_ROLE",
       .value = "NAME",
       .help = "ROLE_NAME of this node's workers; ROLE_RANK counts within a role (default "
               "\"default\")",
       .expected = "a name",
       .read = [](std::string_view text, Options& o) { return ReadText(text, o.rdzv.role); }},
      {.name = "numa_binding",
       .value = "MODE",
       .help = "Keep each worker on the CPUs near its GPU: node, socket, exclusive (a share of the "
               "node's cores) or core-complex (one L3 cache)",
       .expected = "one of node, socket, exclusive, core-complex",
       .completion = Completion::kChoices,
       .choices = "node socket exclusive core-complex",
       .read = ReadNumaBinding},
      {.name = "virtual_local_rank",
       .variable = "PET_VIRTUAL_LOCAL_RANK",
       .help = "LOCAL_RANK is 0 everywhere, and each worker sees its own GPU only",
       .read = [](std::string_view text,
                  Options& o) { return ReadSwitch(text, o.virtual_local_rank); }},
  };
}

}  // namespace ddprun::launcher
