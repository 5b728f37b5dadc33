// GPUs. Code that needs CUDA's headers and libraries is in libddprun_cuda.so, which is opened only
// if a config asks for a GPU. All other code uses the operators, allocators and streams that
// LibTorch has for any device (docs/gpu.md).
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <ddprun/error.h>
#include "base/env.h"
#include "base/pinned_memory.h"
#include "base/result.h"
#include "trainer/compute/device_graph.h"
#include "trainer/compute/device_kernels.h"

namespace ddprun::trainer {

// Raised with every change of CudaModule.
constexpr uint32_t kCudaModuleAbi = 5;

// The type of the module's symbol ddprun_cuda_module. If `abi` and `torch` are equal to this
// program's, the rest may be used.
struct CudaModule {
  uint32_t abi;
  const char* torch;  // the version of LibTorch with which the module was built
  int cuda;           // the version of CUDA: 13000 means 13.0
  // Returns how many devices this process sees. If 0, `why` is CUDA's error. REQUIRES: this process
  // does not fork later, because this asks the driver.
  int (*count_devices)(std::string& why);

  // Returns a device's PCI address as the driver's tools write it ("0000:3b:00.0"); "" if unknown.
  std::string (*bus_id)(int device);

  // Makes a group for collectives between GPUs (NCCL). Its `size` processes meet in `store`, which
  // no other group uses. Work::wait() makes the current stream wait, not the host.
  c10::intrusive_ptr<c10d::Backend> (*make_group)(const c10::intrusive_ptr<c10d::Store>& store,
                                                  int rank,
                                                  int size,
                                                  std::chrono::milliseconds timeout,
                                                  const std::string& name);

  MakeDeviceGraph make_graph;
  // Returns kernels for products of `type`, or nullptr; `why` is the reason then.
  std::shared_ptr<DeviceKernels> (*make_kernels)(c10::Device device,
                                                 at::ScalarType type,
                                                 std::string& why);
  PinnedMemory pinned = {};
};

// Loads the module for the rest of the process; touches no device. Called before the first seed and
// backward, because LibTorch looks for CUDA once. An error has the loader's text; nothing changed.
Result<const CudaModule*> OpenCudaModule(const std::string& path);

// The meaning of run.device on this machine, as far as is known without touching a device.
struct DeviceChoice {
  const CudaModule* module = nullptr;  // nullptr means the CPU
  bool required = false;               // the config asks for a GPU: "cuda", "cuda:0"
  std::string note = {};               // why "auto" takes the CPU although there are GPUs, or ""
};

// Opens the module of FindCudaModule() if `device` is "cuda", or if it is "auto" and a GPU is
// visible. Throws Failure if "cuda" has no module that works or a driver that is too old. `key` is
// the config's key with `device`, for errors.
DeviceChoice ChooseDevice(const std::string& device,
                          const Environment& env,
                          const std::string& key = "run.device");

// Returns the device of the process with this LOCAL_RANK, or kUsage if there is none.
Result<c10::Device> DeviceOf(const CudaModule& module, int local_rank);

// Pure. Returns device `local_rank` of `count`. If `count` is 0, `why` is CUDA's error.
Result<c10::Device> PickDevice(int local_rank, int count, const std::string& why);

// Returns kUsage unless this process sees all GPUs of `devices`. `key` is their key in the config.
Status CheckDevices(const CudaModule* module,
                    std::span<const c10::Device> devices,
                    const std::string& key);

// Returns CurrentError(), or an error of its own for exceptions of a device's allocator or driver.
// `needs` is called if memory ran out; it says how much the run was estimated to need.
Error CurrentDeviceError(const std::function<std::string()>& needs);

}  // namespace ddprun::trainer
