#include "benchmarks/ddp_bench/link_group.h"

#include <chrono>
#include <thread>

#include "base/failure.h"

namespace ddprun::bench {

namespace {

using trainer::OperationQueue;

class LinkWork : public c10d::Work {
 public:
  LinkWork(std::shared_ptr<OperationQueue> queue, std::shared_ptr<OperationQueue::Entry> entry)
      : queue_(std::move(queue)), entry_(std::move(entry)) {}
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    queue_->Wait(*entry_);
    ThrowIfError(entry_->status);
    return true;
  }

 private:
  const std::shared_ptr<OperationQueue> queue_;
  const std::shared_ptr<OperationQueue::Entry> entry_;
};

Status Carry(HostProcessGroup& group,
             std::vector<at::Tensor> tensors,
             c10d::AllreduceOptions options,
             double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  options.asyncOp = false;
  try {
    group.allreduce(tensors, options);
  } catch (const Failure& failure) {
    return failure.error();
  }
  return {};
}

}  // namespace

LinkGroup::LinkGroup(c10::intrusive_ptr<HostProcessGroup> group, double gigabit)
    : Backend(group->getRank(), group->getSize()),
      group_(std::move(group)),
      seconds_per_byte_(2.0 * (getSize() - 1) / getSize() * 8 / (gigabit * 1e9)),
      queue_(std::make_shared<OperationQueue>()) {}

c10::intrusive_ptr<c10d::Work> LinkGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                    const c10d::AllreduceOptions& options) {
  const double seconds = static_cast<double>(tensors[0].nbytes()) * seconds_per_byte_;
  auto entry = queue_->Submit([group = group_, tensors, options, seconds] {
    return Carry(*group, tensors, options, seconds);
  });
  auto work = c10::make_intrusive<LinkWork>(queue_, std::move(entry));
  if (!options.asyncOp) work->wait(kNoTimeout);
  return work;
}

c10::intrusive_ptr<c10d::Work> LinkGroup::broadcast(std::vector<at::Tensor>& tensors,
                                                    const c10d::BroadcastOptions& options) {
  return group_->broadcast(tensors, options);
}

c10::intrusive_ptr<c10d::Work> LinkGroup::_allgather_base(at::Tensor& output,
                                                          at::Tensor& input,
                                                          const c10d::AllgatherOptions& options) {
  return group_->_allgather_base(output, input, options);
}

at::Tensor LinkGroup::allocateTensor(long size, at::TensorOptions options) {
  return group_->allocateTensor(size, options);
}

}  // namespace ddprun::bench
