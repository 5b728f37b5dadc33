// A group that stands for one of a device, which cannot carry tensors of the host.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "trainer/comm/host_process_group.h"

namespace ddprun::trainer {

// Has what gradients, parameters and buffers need, and no more: no flags, counts or orders.
class DeviceGroup : public c10d::Backend {
 public:
  explicit DeviceGroup(c10::intrusive_ptr<HostProcessGroup> group)
      : Backend(group->getRank(), group->getSize()), group_(std::move(group)) {}

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    EXPECT_EQ(tensors[0].scalar_type(), at::kFloat);
    return group_->allreduce(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    EXPECT_EQ(tensors[0].scalar_type(), at::kFloat);
    return group_->broadcast(tensors, options);
  }
  void setTimeout(std::chrono::milliseconds timeout) override { group_->setTimeout(timeout); }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override {
    return group_->allocateTensor(size, options);
  }
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }

 private:
  const c10::intrusive_ptr<HostProcessGroup> group_;
};

}  // namespace ddprun::trainer
