#include "trainer/loop/step_window.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace ddprun::trainer {

void StepWindow::BeforeStep() {
  if (device_.is_cpu()) return;
  c10::Event now(device_.type());
  now.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  if (before_) before_->synchronize();
  before_.emplace(std::move(now));
}

}  // namespace ddprun::trainer
