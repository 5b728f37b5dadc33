// A process group that is as slow as a network link but does not use the processor while it waits,
// like collectives that other hardware carries. It emulates a network.
#pragma once

#include <memory>

#include "trainer/comm/host_process_group.h"
#include "trainer/comm/operation_queue.h"

namespace ddprun::bench {

// An all-reduce of n ranks first waits as long as a link of `gigabit` per second needs for the
// bytes of a ring, 2 (n - 1) / n of the tensor; then it goes through shared memory. All-reduces run
// one after the other. Has only the collectives of a reducer, for calls from one thread.
class LinkGroup : public c10d::Backend {
 public:
  LinkGroup(c10::intrusive_ptr<HostProcessGroup> group, double gigabit);

  const std::string getBackendName() const override { return "ddprun-link"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  // These do not wait, because they are not measured.
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output,
                                                 at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }

 private:
  const c10::intrusive_ptr<HostProcessGroup> group_;
  const double seconds_per_byte_;
  const std::shared_ptr<trainer::OperationQueue> queue_;
};

}  // namespace ddprun::bench
