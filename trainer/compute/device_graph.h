// Work of a device that is recorded once and launched as a whole from then on: the host no longer
// queues its kernels one by one. CUDA's is in libddprun_cuda.so (trainer/cuda/module.cc), that of
// the simulated device with its tests, which check the rules of CUDA's capture (docs/device.md).
#pragma once

#include <c10/core/Device.h>

#include <memory>

namespace ddprun::trainer {

// Of one device. One thread, whose current stream is the same in all calls and not the default
// one. Memory that is taken while it records is its own as long as it lives; other memory that it
// has recorded the use of has to stay where it is. Destroyed before End(), it drops what it has.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  // From here on nothing that is queued on the current stream, or on a stream that waits for it, is
  // run. The host may not wait for any of it, and all of it is to be waited for by the current
  // stream before End().
  virtual void Begin() = 0;
  // Throws where a rule was broken.
  virtual void End() = 0;
  // Queues all of it on the current stream. The device's generator is where it is for the draws.
  virtual void Replay() = 0;
};

using MakeDeviceGraph = std::unique_ptr<DeviceGraph> (*)(c10::Device device);

}  // namespace ddprun::trainer
