#include "trainer/data/batch_mover.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "trainer/compute/device.h"

namespace ddprun::trainer {

BatchMover::BatchMover(c10::Device device) : device_(device) {
  if (device.is_cpu()) return;
  copies_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

Batch BatchMover::Move(Batch batch) const {
  if (!copies_) return batch;
  const c10::Stream computing = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  batch.on_host.attention_mask = batch.attention_mask;
  if (batch.targets.defined() && batch.targets.scalar_type() == at::kLong &&
      batch.targets.numel() > 0) {
    batch.on_host.largest_target = batch.targets.max().item<int64_t>();
  }
  {
    const c10::StreamGuard on_copies(*copies_);
    for (at::Tensor* tensor : batch.Tensors()) *tensor = ToDevice(*tensor, device_);
  }
  c10::Event copied(device_.type());
  copied.record(*copies_);
  copied.block(computing);
  // Its memory belongs to the copies' stream, which must not use it again before this one is done.
  for (at::Tensor* tensor : batch.Tensors()) {
    if (tensor->defined()) tensor->record_stream(computing);
  }
  return batch;
}

}  // namespace ddprun::trainer
