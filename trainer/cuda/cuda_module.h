// GPUs. What needs CUDA's headers and libraries is in libddprun_cuda.so, which is opened where a
// config asks for a GPU: a CPU's worker neither links nor loads any of it. All else goes through
// the operators, allocators and streams that LibTorch has for any device (docs/gpu.md).
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/env.h"
#include "base/error.h"
#include "base/pinned_memory.h"
#include "base/result.h"
#include "trainer/compute/device_graph.h"

namespace ddprun::trainer {

// Raised with every change of CudaModule.
constexpr uint32_t kCudaModuleAbi = 4;

// What the module's symbol ddprun_cuda_module is. The first two tell whether the rest may be used.
struct CudaModule {
  uint32_t abi;
  const char* torch;  // the version that it was built with, as this program
  int cuda;           // the same of CUDA: 13000 is 13.0

  // How many devices this process sees. For 0 `why` is what CUDA says of it. Asks the driver: not
  // in a process that is yet to fork.
  int (*count_devices)(std::string& why);

  // Where a device is plugged in, as the driver's tools write it ("0000:3b:00.0"); "" where that is
  // not known.
  std::string (*bus_id)(int device);

  // Collectives between GPUs (NCCL): of `size` processes that meet in `store` by itself. Its Work's
  // wait() makes the current stream wait, not the host.
  c10::intrusive_ptr<c10d::Backend> (*make_group)(const c10::intrusive_ptr<c10d::Store>& store,
                                                  int rank,
                                                  int size,
                                                  std::chrono::milliseconds timeout,
                                                  const std::string& name);

  MakeDeviceGraph make_graph;
  PinnedMemory pinned = {};
};

// Loads the module. Before the process' first seed and backward: LibTorch looks for CUDA once, and
// keeps what it finds. Touches no device. Errors say what is missing, by the dynamic loader's own
// words; nothing of the process has changed then. Never unloaded.
Result<const CudaModule*> OpenCudaModule(const std::string& path);

// What run.device means on this machine, so far as can be told without touching a device.
struct DeviceChoice {
  const CudaModule* module = nullptr;  // nullptr: the CPU
  bool required = false;               // "cuda" or "cuda:0", say
  std::string note = {};  // why "auto" takes the CPU though there are GPUs; "" otherwise
};

// Opens the module that FindCudaModule finds, for "cuda" always, for "auto" where the driver has a
// GPU that CUDA_VISIBLE_DEVICES leaves. Throws Failure for "cuda" without a module that works, or
// with a driver too old for it; `key`: which key asks.
DeviceChoice ChooseDevice(const std::string& device,
                          const Environment& env,
                          const std::string& key = "run.device");

// The device of the process with that LOCAL_RANK. kUsage when there is none for it.
Result<c10::Device> DeviceOf(const CudaModule& module, int local_rank);

// Pure: device `local_rank` of `count`; `why` is what CUDA says where that is 0.
Result<c10::Device> PickDevice(int local_rank, int count, const std::string& why);

// Whether this process sees every one of `devices` that is a GPU. kUsage when not; `key` names them
// in the config.
Status CheckDevices(const CudaModule* module,
                    std::span<const c10::Device> devices,
                    const std::string& key);

// CurrentError(), but what a device's allocator or driver throws is told as such. `needs` says what
// the run was estimated to need, and is asked where that matters.
Error CurrentDeviceError(const std::function<std::string()>& needs);

}  // namespace ddprun::trainer
