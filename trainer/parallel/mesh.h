// The processes that train together, by what they share.
#pragma once

#include <c10/core/Device.h>

#include <chrono>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace ddprun::trainer {

// Processes beside each other in one respect.
struct Axis {
  int rank = 0;  // of this process
  int size = 1;
  // For tensors on the device; nullptr: this process is alone.
  c10::intrusive_ptr<c10d::Backend> group = {};
};

struct Mesh {
  Mesh() = default;  // of one process
  // One group for everything; nullptr: this process is alone.
  template <typename Group>
  Mesh(const c10::intrusive_ptr<Group>& group) {
    if (group == nullptr) return;
    data = {.rank = group->getRank(), .size = group->getSize(), .group = group};
    control = group;
  }

  // For collectives that begin after this call.
  void SetTimeout(std::chrono::milliseconds timeout) const;

  Axis data;  // have the same model and other samples: gradients are averaged along it
  // Of all processes, for tensors on the host: counts, comparisons, announcements. The data axis'
  // group may be one that cannot carry those.
  c10::intrusive_ptr<c10d::Backend> control = {};
  c10::Device device = c10::kCPU;  // where the model is
};

// A zeroed 1-d tensor that the group reduces without a copy, where it has memory for that device.
at::Tensor MakeFlat(c10d::Backend& group, int64_t elements, const at::TensorOptions& options);

// All-reduces the host tensor in place, over the control group, before it returns. Nothing where
// that is nullptr. Throws Failure.
void AllReduceOnHost(c10d::Backend* control,
                     const at::Tensor& tensor,
                     c10d::ReduceOp::RedOpType operation = c10d::ReduceOp::SUM);

}  // namespace ddprun::trainer
