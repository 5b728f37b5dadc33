// Work of a device that is recorded once and then launched as a whole, so that the host does not
// queue its kernels one by one. Implemented for CUDA in trainer/cuda/module.cc, and in the tests of
// the simulated device, which check the rules of CUDA's capture (docs/device.md).
#pragma once

#include <c10/core/Device.h>

#include <memory>

namespace ddprun::trainer {

// Used by one thread, with the same current stream in all calls, which is not the default stream.
// Owns memory that is allocated while it records. Other memory that it uses must stay in place.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  // From now on work on the current stream, and on streams that wait for it, is recorded and does
  // not run. The host must not wait for it; the current stream must wait for it before End().
  virtual void Begin() = 0;
  // Throws if a rule was broken.
  virtual void End() = 0;
  // Queues the recorded work on the current stream. It draws from the device's generator.
  virtual void Replay() = 0;
};

using MakeDeviceGraph = std::unique_ptr<DeviceGraph> (*)(c10::Device device);

}  // namespace ddprun::trainer
