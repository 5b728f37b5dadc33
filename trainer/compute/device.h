// The device of the model: the CPU, or an asynchronous device, for which the host must not wait
// within a step (docs/device.md).
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include <ddprun/device_scalar.h>

namespace ddprun::trainer {

// Returns whether the loops of kernels.h and the engines of matmul.h may compute with this tensor:
// it is on the CPU, and no DeviceOperatorsOnly lives. Otherwise ATen's operators compute.
bool IsForHostKernels(const at::Tensor& tensor);

// While one lives, all threads compute on the CPU with the operators for devices. For tests that
// compare bits with a device's.
class DeviceOperatorsOnly {
 public:
  DeviceOperatorsOnly();
  ~DeviceOperatorsOnly();
  DeviceOperatorsOnly(const DeviceOperatorsOnly&) = delete;
  DeviceOperatorsOnly& operator=(const DeviceOperatorsOnly&) = delete;
};

// Makes `device` the current device of this thread.
void UseDevice(c10::Device device);

// Waits until `device` has finished all work on this thread's current stream. Throws the device's
// errors.
void WaitForDevice(c10::Device device);

// Returns this thread's generator for draws on the host: torch's default generator, which threads
// share, or after UseOwnHostGenerator() one of its own.
at::Generator HostGenerator();
void UseOwnHostGenerator();
uint64_t HostSeed();

// Seeds HostGenerator() and the generator of `device`. Any thread.
void SeedGenerators(c10::Device device, uint64_t seed);

// Draws a seed from HostGenerator(). Any thread.
uint64_t DrawSeed();

// The states of HostGenerator() and of the device's generator. Any thread.
struct RandomState {
  static RandomState Of(c10::Device device);
  void Restore() const;

  c10::Device device;
  at::Tensor host;
  at::Tensor on_device;  // undefined if `device` is the CPU
};

// While it lives, draws depend on the generators' state and on `part`. Its destructor leaves the
// generators in a state that does not depend on `part`.
class RandomNumbersOfPart {
 public:
  RandomNumbersOfPart(c10::Device device, int64_t part);
  ~RandomNumbersOfPart() { after_.Restore(); }
  RandomNumbersOfPart(const RandomNumbersOfPart&) = delete;
  RandomNumbersOfPart& operator=(const RandomNumbersOfPart&) = delete;

 private:
  const uint64_t seed_;
  const RandomState after_;
};

// Copies a host tensor to the device through pinned memory, in the order of the current stream. The
// host does not wait. If `device` is the CPU or `host` is undefined, returns `host`.
at::Tensor ToDevice(const at::Tensor& host, c10::Device device);

// While it lives, this thread's ToDevice() keeps its pinned memory in `kept`, for a DeviceGraph
// that repeats the copies later. Not nested.
class KeepHostCopies {
 public:
  explicit KeepHostCopies(std::vector<at::Tensor>& kept);
  ~KeepHostCopies();
  KeepHostCopies(const KeepHostCopies&) = delete;
  KeepHostCopies& operator=(const KeepHostCopies&) = delete;
};

// Peak memory of a device's allocator, in bytes; < 0 means unknown, as for the CPU.
struct DeviceMemoryPeak {
  int64_t allocated = -1;  // used by tensors
  int64_t reserved = -1;   // taken from the device, also for later tensors
};

// Returns the peak since the last call, or since the start: torch.cuda.max_memory_allocated and
// max_memory_reserved. Resets both. Does not wait for the device. Any thread.
DeviceMemoryPeak TakeMemoryPeak(c10::Device device);

}  // namespace ddprun::trainer
