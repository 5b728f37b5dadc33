// A process group for CPU tensors: a c10d backend over memory shared by the ranks of a node, and
// over UCX between nodes.
//
// Rules of c10d hold: all ranks call the same operations in the same order. With asyncOp (the
// default of c10d) an operation runs in the background and Work::wait() blocks until its result is
// there; without, it is done when the call returns. A Work may outlive the group, whose end cancels
// what still runs. Errors are thrown by wait(), or by the call itself, as ddprun::Failure;
// they name the operation and the ranks that did not come.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/flight_recorder.h"
#include "base/unique_fd.h"
#include "trainer/comm/data_type.h"
#include "trainer/comm/node_link.h"
#include "trainer/comm/operation_queue.h"
#include "trainer/comm/shared_region.h"

namespace ddprun::trainer {

class HostProcessGroup : public c10d::Backend {
 public:
  struct Options {
    int rank = 0;
    int size = 1;
    std::chrono::milliseconds timeout = std::chrono::seconds(100);
    // Which group of all ranks in the same memory this is, one after the other or side by side.
    int generation = 0;
    std::shared_ptr<FlightRecorder> recorder = {};  // is told of every collective, if there is one
    // Ranks on several nodes (ConnectNodes): any number for each node. Empty: all are on this one.
    std::vector<int> node_of_rank = {};
    // What errors and the recorder call the ranks: their numbers in the job. Empty: as here.
    std::vector<int> names = {};
    GroupWire wire = {};
  };
  // How long waits of a node's ranks spin: only when each has a core.
  static std::chrono::nanoseconds SpinTime(int ranks);
  // `memory`: the same file for all ranks of the node (SharedRegion::CreateFile), passed by
  // inheritance or as a descriptor. Throws Failure when it cannot be mapped.
  static c10::intrusive_ptr<HostProcessGroup> Create(const UniqueFd& memory,
                                                     const Options& options);
  ~HostProcessGroup() override;

  const std::string getBackendName() const override { return "ddprun-host"; }
  void setTimeout(std::chrono::milliseconds timeout) override;  // of operations to come
  // Of later all-reduces, at the same place on all ranks. Any thread.
  void SetAllReduceAlgorithm(AllReduceAlgorithm algorithm);
  void abort() override;  // what runs and what comes ends with an error in this process
  // Throws Failure (kRankLost) where a rank is known to be lost in this generation. Any thread.
  void CheckRanks() const;
  // Goes on in the next generation, which the process in place of a lost rank makes. What runs ends
  // first. Tensors stay; others may use them until the first collective is done. On one node.
  void Renew();
  void FreePast();  // the generations before, once no rank uses anything of those any more
  int generation() const;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override;  // collectives begun so far

  // Below, tensors are dense CPU tensors of any shape; reductions take the types of data_type.h and
  // sum, avg, max, min and product, all else takes any type. A list of tensors has one element per
  // process, or one per rank where c10d says so. "_base" and "into_tensor" forms need tensors
  // without gaps. allreduce and broadcast take a device's tensors, too: they wait for it, copy them
  // to the host, and wait() copies back in the order of the current stream.
  using Tensors = std::vector<at::Tensor>;
  using Work = c10::intrusive_ptr<c10d::Work>;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options = {}) override;
  Work allreduce_coalesced(Tensors& tensors,
                           const c10d::AllreduceCoalescedOptions& options = {}) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options = {}) override;
  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options = {}) override;
  Work allgather(std::vector<Tensors>& outputs,
                 Tensors& inputs,
                 const c10d::AllgatherOptions& options = {}) override;
  Work _allgather_base(at::Tensor& output,
                       at::Tensor& input,
                       const c10d::AllgatherOptions& options = {}) override;
  Work allgather_into_tensor_coalesced(Tensors& outputs,
                                       Tensors& inputs,
                                       const c10d::AllgatherOptions& options = {}) override;
  Work gather(std::vector<Tensors>& outputs,
              Tensors& inputs,
              const c10d::GatherOptions& options = {}) override;
  Work scatter(Tensors& outputs,
               std::vector<Tensors>& inputs,
               const c10d::ScatterOptions& options = {}) override;
  Work reduce_scatter(Tensors& outputs,
                      std::vector<Tensors>& inputs,
                      const c10d::ReduceScatterOptions& options = {}) override;
  Work _reduce_scatter_base(at::Tensor& output,
                            at::Tensor& input,
                            const c10d::ReduceScatterOptions& options = {}) override;
  Work reduce_scatter_tensor_coalesced(Tensors& outputs,
                                       Tensors& inputs,
                                       const c10d::ReduceScatterOptions& options = {}) override;
  Work alltoall_base(at::Tensor& output,
                     at::Tensor& input,
                     std::vector<int64_t>& output_splits,
                     std::vector<int64_t>& input_splits,
                     const c10d::AllToAllOptions& options = {}) override;
  Work alltoall(Tensors& outputs,
                Tensors& inputs,
                const c10d::AllToAllOptions& options = {}) override;
  Work barrier(const c10d::BarrierOptions& options = {}) override;
  // As NodeGroup's. Both throw Failure.
  using PassBytes = std::function<void(void* data, size_t bytes)>;
  void Stream(int root, bool takes, const std::function<void(const PassBytes& pass)>& use);
  // Throws, and names the ranks that did not come, by itself.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  // A send is done once the message is copied; its receiver may come later. They take a device's
  // tensors, too, and wait for it.
  Work send(Tensors& tensors, int destination, int tag) override;
  Work recv(Tensors& tensors, int source, int tag) override;
  // Work::sourceRank() says from whom, once done.
  Work recvAnysource(Tensors& tensors, int tag) override;

  // The group of some of this group's ranks, given in the same order on all of them, numbered anew
  // in it. A collective over ALL ranks of this group, each with its new group's (none: nullptr).
  c10::intrusive_ptr<HostProcessGroup> NewGroup(const std::vector<int>& ranks);

  // A zeroed 1-d tensor in shared memory, which may outlive the group: collectives on it, or on
  // contiguous views of it, need no copy.
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return index < 0; }

 private:
  friend struct PartsInPlace;
  struct Core;
  class CollectiveWork;
  class MessageWork;

  HostProcessGroup(const UniqueFd& memory, const Options& options, std::chrono::nanoseconds spin);

  // `outputs`: what the operation writes, for its future.
  Work Run(c10d::OpType type, bool async, Tensors outputs, OperationQueue::Function run);
  OperationQueue::Function Announced(c10d::OpType type, OperationQueue::Function run);
  // Of a group of these of the own ranks.
  Options OptionsFor(const std::vector<int>& ranks, uint16_t group) const;
  Work StartMessage(c10d::OpType type, const at::Tensor& tensor, int peer, int tag);

  std::shared_ptr<Core> core_;  // shared with the Work objects
};

}  // namespace ddprun::trainer
