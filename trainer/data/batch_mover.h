// Batches on their way to the model's device.
#pragma once

#include <c10/core/Stream.h>

#include <optional>

#include "trainer/data/dataset.h"

namespace ddprun::trainer {

// Copies go through pinned memory on a stream of their own: those of the next batch run beside what
// the device still computes of this one. The host waits for nothing. One thread, on which
// UseDevice(device) was called.
class BatchMover {
 public:
  explicit BatchMover(c10::Device device);

  // The batch for the thread's current stream; on the CPU the batch itself.
  Batch Move(Batch batch) const;
  // Whether there is anything to copy: the device is not the CPU.
  bool copies() const { return copies_.has_value(); }

 private:
  const c10::Device device_;
  std::optional<c10::Stream> copies_;  // none: the device is the CPU
};

}  // namespace ddprun::trainer
