// How far the host may run ahead of the model's device.
#pragma once

#include <c10/core/Event.h>

#include <optional>

namespace ddprun::trainer {

// The device always has a step to compute, and never more than two: what belongs to a step, its
// batch above all, is there for no more of them. The CPU is never behind. One thread, on which
// UseDevice(device) was called.
class StepWindow {
 public:
  explicit StepWindow(c10::Device device) : device_(device) {}

  // Before a step is queued: waits until the device has ended the one before the last. Throws the
  // device's errors.
  void BeforeStep();

 private:
  const c10::Device device_;
  std::optional<c10::Event> before_;  // what was queued when the last step came; none: nothing
};

}  // namespace ddprun::trainer
