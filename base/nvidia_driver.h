// Asks NVIDIA's driver about the GPUs of this machine, through its library (NVML). CUDA would take
// seconds and leave a context on every GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ddprun {

// A value that the driver does not know stays empty.
struct Gpu {
  std::string name;
  std::string uuid;    // "GPU-8932f937-..."
  std::string bus_id;  // PCI address: "0000:3b:00.0"
  int64_t memory_bytes = 0;
  int64_t memory_used = 0;
  std::optional<int> celsius = {};
  std::optional<int> watts = {};
  std::optional<int> busy_percent = {};
  bool mig = false;                         // the GPU is split into instances
  std::vector<std::string> instances = {};  // UUIDs of its instances: "MIG-..."
};

struct NvidiaDriver {
  std::string version;  // "580.65.06"
  int cuda = 0;         // the newest CUDA that it supports: 13000 means 13.0
  std::vector<Gpu> gpus;
  // Pairs of GPUs, by index, that cannot read each other's memory.
  std::vector<std::pair<size_t, size_t>> without_peer_access = {};
};

// Returns kFailed if there is no driver, or if it does not answer: `what` is one sentence that says
// which. Takes milliseconds, or a second if no process keeps the driver loaded.
Result<NvidiaDriver> QueryNvidiaDriver();

// Returns "NVIDIA H200, 141 GiB (1.0 GiB in use), 41 C, 71 W, 97 % busy"; unknown parts are absent.
std::string DescribeGpu(const Gpu& gpu);

// Returns the number of devices that CUDA shows if CUDA_VISIBLE_DEVICES is `visible`. CUDA ignores
// the list from the first entry on that names no device, and shows none if it names one twice.
// Without a list it shows the GPUs that are not split, or if all are, one instance.
int CountVisibleGpus(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible);

// Returns the path of ddp-trainer's module for GPUs: DDPRUN_CUDA_MODULE, else libddprun_cuda.so
// beside the program or where it is installed; "" if there is none.
std::string FindCudaModule(const Environment& env, const std::string& program_folder);

}  // namespace ddprun
