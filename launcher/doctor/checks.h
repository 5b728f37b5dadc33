// The checks of `ddprun doctor`: Read functions collect facts, Check functions (pure) judge them.
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

// A resource limit of processes; a negative number means no limit.
struct ProcessLimit {
  int64_t soft = -1;
  int64_t hard = -1;
};

struct MachineFacts {
  int cores = 1;  // UsableCores()
  int processors = 1;
  int numa_nodes = 1;
  std::optional<MemoryLimit> memory = {};
  std::optional<int64_t> free_memory = {};
  std::optional<int64_t> shared_memory = {};  // size of /dev/shm; nullopt means none
  ProcessLimit open_files = {};
  ProcessLimit processes = {};
  ProcessLimit locked_memory = {};
};
// Returns the memory that is free on the machine; nullopt means unknown.
std::optional<int64_t> ReadFreeMemory();
MachineFacts ReadMachine(const Environment& env);
std::vector<Finding> CheckMachine(const MachineFacts& facts);

struct NetworkInterface {
  std::string name;
  int64_t megabits = 0;     // per second; 0 means unknown
  bool infiniband = false;  // InfiniBand or RoCE
};
struct NetworkFacts {
  std::string host;
  std::vector<std::string> addresses = {};  // of `host`; empty means unknown, or no answer in time
  std::optional<std::string> ucx = {};      // its version; nullopt means that it cannot be loaded
  std::string ucx_error = {};
  std::vector<NetworkInterface> interfaces = {};  // those that are up, without loopback
  std::vector<uint16_t> busy_ports = {};
  bool any_port = true;  // this process can listen at a free port
};
NetworkFacts ReadNetwork();
// Returns the addresses of a host; none if a name server does not answer within a few seconds. Its
// thread goes on after that.
std::vector<std::string> AddressesOf(const std::string& host);
std::vector<Finding> CheckNetwork(const NetworkFacts& facts,
                                  const IntendedUse& use,
                                  const ProcessLimit& locked_memory);

// A library that a program or library needs. `path` is "" if the dynamic loader does not find it.
struct LoadedLibrary {
  std::string name;
  std::string path;
};
std::vector<LoadedLibrary> ParseLoaderList(const std::string& text);

struct TrainerFacts {
  std::optional<Error> not_found = {};
  std::string path = {};
  std::string versions = {};  // output of --version; "" means that it failed with `output`
  std::string output = {};
  std::vector<LoadedLibrary> libraries = {};
  std::string module = {};  // FindCudaModule()
  std::vector<LoadedLibrary> module_libraries = {};
  int cuda = 0;  // 13000, of the runtime that the module loads; 0 means none
  int nccl = 0;  // 22809
};
TrainerFacts ReadTrainer(const Environment& env, const std::string& program_folder);
std::vector<Finding> CheckTrainer(const TrainerFacts& facts);

// Checks the GPUs, their driver, and whether the trainer can use them.
std::vector<Finding> CheckGpus(const Result<NvidiaDriver>& driver,
                               const std::optional<std::string>& visible,
                               const TrainerFacts& trainer,
                               const IntendedUse& use);

}  // namespace ddprun::launcher
