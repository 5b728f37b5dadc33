// What `ddprun doctor` looks at: facts of this machine, and what they mean. The second is pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/cgroup_memory.h"
#include "base/env.h"
#include "base/nvidia_driver.h"
#include "launcher/cli/numa_binding.h"
#include "launcher/doctor/finding.h"

namespace ddprun::launcher {

// Of processes; negative: no limit.
struct ProcessLimit {
  int64_t now = -1;
  int64_t most = -1;  // to which a process may raise it
};

struct MachineFacts {
  int cores = 1;  // UsableCores
  int processors = 1;
  int numa_nodes = 1;
  std::optional<MemoryLimit> memory = {};
  std::optional<int64_t> free_memory = {};
  std::optional<int64_t> shared_memory = {};  // the size of /dev/shm; unset: there is none
  ProcessLimit open_files = {};
  ProcessLimit processes = {};
  ProcessLimit locked_memory = {};
};
MachineFacts ReadMachine(const Environment& env);
std::vector<Finding> CheckMachine(const MachineFacts& facts);

struct NetworkInterface {
  std::string name;
  int64_t megabits = 0;     // per second; 0: it does not tell
  bool infiniband = false;  // or RoCE: has its own verbs
};
struct NetworkFacts {
  std::string host;
  std::vector<std::string> addresses = {};  // of that name; empty: unknown, or no answer in time
  std::optional<std::string> ucx = {};      // its version; unset: it cannot be loaded
  std::string ucx_error = {};
  std::vector<NetworkInterface> interfaces = {};  // that are up, without loopback
  std::vector<uint16_t> busy_ports = {};
  bool any_port = true;  // a free one can be listened at
};
NetworkFacts ReadNetwork();
std::vector<Finding> CheckNetwork(const NetworkFacts& facts,
                                  const Asked& asked,
                                  const ProcessLimit& locked_memory);

// What the dynamic loader finds for a program or library: file names with their paths, "" for those
// that it does not find.
struct LoadedLibrary {
  std::string name;
  std::string path;
};
std::vector<LoadedLibrary> ParseLoaderList(const std::string& text);

struct TrainerFacts {
  std::optional<Error> not_found = {};
  std::string path = {};
  std::string versions = {};  // what it says of itself; empty: it did not run, and said `output`
  std::string output = {};
  std::vector<LoadedLibrary> libraries = {};
  std::string module = {};  // FindCudaModule
  std::vector<LoadedLibrary> module_libraries = {};
  int cuda = 0;  // 13000, of the runtime that the module loads; 0: none
  int nccl = 0;  // 22809
};
TrainerFacts ReadTrainer(const Environment& env, const std::string& own_folder);
std::vector<Finding> CheckTrainer(const TrainerFacts& facts);

// GPUs, their driver, and whether the trainer can use them.
std::vector<Finding> CheckGpus(const Result<NvidiaDriver>& driver,
                               const std::optional<std::string>& visible,
                               const TrainerFacts& trainer,
                               const Asked& asked);

}  // namespace ddprun::launcher
