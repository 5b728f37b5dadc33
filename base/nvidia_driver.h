// What NVIDIA's driver says of the GPUs of this machine, by its own library (NVML), which is opened
// when it is asked: no CUDA, which would take seconds and leave a context on every GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ddprun {

// What the driver does not tell stays empty.
struct Gpu {
  std::string name;
  std::string uuid;    // "GPU-8932f937-..."
  std::string bus_id;  // PCI address: "0000:3b:00.0"
  int64_t memory_bytes = 0;
  int64_t memory_used = 0;
  std::optional<int> celsius = {};
  std::optional<int> watts = {};
  std::optional<int> busy_percent = {};
  bool mig = false;                         // split into instances,
  std::vector<std::string> instances = {};  // whose UUIDs these are: "MIG-..."
};

struct NvidiaDriver {
  std::string version;  // "580.65.06"
  int cuda = 0;         // the newest CUDA that it can serve: 13000 is 13.0
  std::vector<Gpu> gpus;
  // Pairs of GPUs, by index, that cannot read each other's memory.
  std::vector<std::pair<size_t, size_t>> apart = {};
};

// kFailed when there is no such driver, or one that does not answer: `what` says which, in one
// sentence. Takes milliseconds, a second where no process keeps the driver awake.
Result<NvidiaDriver> AskNvidiaDriver();

// "NVIDIA H200, 141 GiB (1.0 GiB in use), 41 C, 71 W, 97 % busy", as far as it is known.
std::string DescribeGpu(const Gpu& gpu);

// How many devices CUDA would show to a process with this CUDA_VISIBLE_DEVICES: indices, or
// beginnings of UUIDs of GPUs and MIG instances; the list ends at the first that names none, and
// one named twice hides all. Without a list GPUs that are split are not seen, but where all are,
// the first instance. GPUs whose UUID is not known may have any.
int CountVisibleGpus(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible);

// The module with which the ddp-trainer of that folder computes on GPUs: DDPRUN_CUDA_MODULE, else
// libddprun_cuda.so beside the program or where it is installed; "" when there is none.
std::string FindCudaModule(const Environment& env, const std::string& program_folder);

}  // namespace ddprun
