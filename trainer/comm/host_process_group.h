// A process group for CPU tensors: a c10d backend over memory shared by the ranks of a node.
//
// Rules of c10d hold: all ranks call the same operations in the same order. With asyncOp (the
// default of c10d) an operation runs in the background and Work::wait(), to be called while the
// group exists, blocks until its result is there; without, it is done when the call returns.
// Errors are thrown by wait(), or by the call itself, as ddprun::Failure; they name the operation
// and the ranks that did not come.
#pragma once

#include <memory>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/unique_fd.h"
#include "trainer/comm/node_group.h"
#include "trainer/comm/operation_queue.h"

namespace ddprun::trainer {

class HostProcessGroup : public c10d::Backend {
 public:
  struct Options {
    int rank = 0;
    int size = 1;
    std::chrono::milliseconds timeout = std::chrono::seconds(100);
  };
  // `memory`: the same file for all ranks of the node (SharedRegion::CreateFile), passed by
  // inheritance or as a descriptor. Throws Failure when it cannot be mapped.
  static c10::intrusive_ptr<HostProcessGroup> Create(const UniqueFd& memory,
                                                     const Options& options);
  ~HostProcessGroup() override;

  const std::string getBackendName() const override { return "ddprun-host"; }
  // For operations that begin after this call.
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void abort() override { group_.Cancel(); }

  // One dense CPU tensor of a type of data_type.h, any shape. Sum, avg, max, min and product.
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  // outputs[0]: size() tensors shaped like inputs[0].
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  // output: size() times the elements of input, in rank order.
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output,
                                                 at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

  // A zeroed 1-d tensor of `size` elements in shared memory: collectives on it, or on views of it
  // that are contiguous, need no copy. It may outlive the group.
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }

 private:
  HostProcessGroup(std::shared_ptr<SharedRegion> region, const Options& options);

  c10::intrusive_ptr<c10d::Work> Run(c10d::OpType type, bool async, OperationQueue::Function run);
  Clock::time_point Deadline(std::chrono::milliseconds timeout) const;

  const std::shared_ptr<SharedRegion> region_;
  std::atomic<std::chrono::milliseconds> timeout_;
  NodeGroup group_;
  OperationQueue queue_;  // after group_: its thread uses the group
};

}  // namespace ddprun::trainer
