// The device that the model is on: the CPU, or one that works asynchronously, whose results the
// host must not wait for within a step (docs/device.md).
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace ddprun::trainer {

// Whether this tensor is for the loops of kernels.h and the engines of matmul.h: they read memory
// themselves, so it is on the CPU. All else is computed by ATen's operators, on any device.
bool IsForHostKernels(const at::Tensor& tensor);

// While one lives, all threads compute on the CPU, too, as on a device: for tests that compare bits
// with those of one.
class DeviceFormsOnly {
 public:
  DeviceFormsOnly();
  ~DeviceFormsOnly();
  DeviceFormsOnly(const DeviceFormsOnly&) = delete;
  DeviceFormsOnly& operator=(const DeviceFormsOnly&) = delete;
};

// What this thread makes "on the current device" is on this one from now on.
void UseDevice(c10::Device device);

// What this thread draws on the host comes from here: torch's default generator, which all threads
// share, or from UseOwnHostGenerator() on one of its own.
at::Generator HostGenerator();
void UseOwnHostGenerator();
uint64_t HostSeed();

// HostGenerator() and, where it is another, the device's. Those of other
// devices are left alone. Any thread.
void SeedGenerators(c10::Device device, uint64_t seed);

// One number of the CPU's: a seed for what is drawn otherwise. Any thread.
uint64_t DrawSeed();

// The state of these generators. Any thread.
struct RandomState {
  static RandomState Of(c10::Device device);
  void Restore() const;

  c10::Device device;
  at::Tensor host;
  at::Tensor on_device;  // undefined: the CPU is the device
};

// While it lives, what is drawn follows from the generators' state and `part`, and is different for
// each part; afterwards the generators are where they are for all parts.
class OwnRandomNumbers {
 public:
  OwnRandomNumbers(c10::Device device, int64_t part);
  ~OwnRandomNumbers() { after_.Restore(); }
  OwnRandomNumbers(const OwnRandomNumbers&) = delete;
  OwnRandomNumbers& operator=(const OwnRandomNumbers&) = delete;

 private:
  const uint64_t seed_;
  const RandomState after_;
};

// A host tensor on the device. The host does not wait: the copy goes through pinned memory, in the
// order of the current stream. On the CPU the tensor itself; undefined stays undefined.
at::Tensor ToDevice(const at::Tensor& host, c10::Device device);

// While it lives, the pinned memory of what this thread gives to ToDevice() is kept in `kept`: for
// a device that makes the same copies again later. Not nested.
class KeepHostCopies {
 public:
  explicit KeepHostCopies(std::vector<at::Tensor>& kept);
  ~KeepHostCopies();
  KeepHostCopies(const KeepHostCopies&) = delete;
  KeepHostCopies& operator=(const KeepHostCopies&) = delete;
};

// What a device's allocator has given out, in bytes; < 0: the device is the CPU, whose memory is
// the process' own.
struct DeviceMemoryPeak {
  int64_t allocated = -1;  // to tensors
  int64_t reserved = -1;   // from the device, with what the allocator keeps for later tensors
};

// The most since the last call, or since the process began: what torch.cuda.max_memory_allocated
// and max_memory_reserved say, which begin anew. Does not wait for the device. Any thread.
DeviceMemoryPeak TakeMemoryPeak(c10::Device device);

// A number that the host has, or that a device may still be computing.
class DeviceScalar {
 public:
  DeviceScalar(double value = 0) : value_(value) {}
  // A tensor of one element. On the CPU it is read at once, elsewhere when it is asked for.
  explicit DeviceScalar(const at::Tensor& value);

  // Waits for the device.
  operator double() const;
  // A float64 scalar; undefined where the host has the number.
  const at::Tensor& on_device() const { return on_device_; }

  DeviceScalar operator*(double factor) const;
  DeviceScalar& operator+=(const DeviceScalar& other);

 private:
  double value_ = 0;
  at::Tensor on_device_;
};

}  // namespace ddprun::trainer
