// Limits how far the host runs ahead of the model's device.
#pragma once

#include <c10/core/Event.h>

#include <optional>

namespace ddprun::trainer {

// Keeps one or two steps queued on the device, so that it always has work, and batches of at most
// two steps take memory. Does nothing on the CPU, which is never behind. One thread, on which
// UseDevice(device) was called.
class StepWindow {
 public:
  explicit StepWindow(c10::Device device) : device_(device) {}

  // Call it before a step is queued. Waits until the device has finished the step before the last.
  // Throws the device's errors.
  void BeforeStep();

 private:
  const c10::Device device_;
  std::optional<c10::Event> before_;  // recorded when the last step came; none: first step
};

}  // namespace ddprun::trainer
