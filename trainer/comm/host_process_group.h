// A process group for CPU tensors: a c10d backend over memory shared by the ranks of a node, and
// over UCX between nodes.
//
// The rules of c10d hold: all ranks call the same operations in the same order. With asyncOp (the
// default of c10d) an operation runs in the background and Work::wait() blocks until its result is
// there; without asyncOp, the call itself blocks. A Work may outlive the group; the group's
// destructor cancels running operations. wait(), or the call itself, throws ddprun::Failure, which
// names the operation and the missing ranks.
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
    // The number of this group. Other groups of all ranks in this memory have other numbers.
    int generation = 0;
    std::shared_ptr<FlightRecorder> recorder = {};  // records collectives; nullptr: none
    // The node of each rank (ConnectNodes). Empty: all ranks are on one node.
    std::vector<int> node_of_rank = {};
    // The ranks' numbers in the job, for errors and the recorder. Empty: as here.
    std::vector<int> names = {};
    GroupWire wire = {};
  };
  // Returns how long waits of a node's ranks spin: 0 unless each rank has a core.
  static std::chrono::nanoseconds SpinTime(int ranks);
  // Makes the group. `memory` is one file for all ranks of the node (SharedRegion::CreateFile),
  // inherited or passed as a descriptor. Throws Failure if it cannot be mapped.
  static c10::intrusive_ptr<HostProcessGroup> Create(const UniqueFd& memory,
                                                     const Options& options);
  ~HostProcessGroup() override;

  const std::string getBackendName() const override { return "ddprun-host"; }
  void setTimeout(std::chrono::milliseconds timeout) override;  // of later operations
  // Sets the algorithm of later all-reduces, between the same operations on all ranks. Any thread.
  void SetAllReduceAlgorithm(AllReduceAlgorithm algorithm);
  void abort() override;  // running and later operations fail, in this process
  // Throws Failure (kRankLost) if a rank of this generation is known to be lost. Any thread.
  void CheckRanks() const;
  // Cancels running operations and moves to the next generation, made by a lost rank's replacement.
  // Ranks may use tensors of this group until the first collective is done. On one node only.
  void Renew();
  void FreeOldGenerations();  // frees earlier generations; call it when no rank uses them
  int generation() const;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override;  // collectives begun so far

  // The operations below take dense CPU tensors of any shape. Reductions take the types of
  // data_type.h and sum, avg, max, min and product; others take any type. A list of tensors has one
  // element per process, or one per rank where c10d says so. "_base" and "into_tensor" forms need
  // contiguous tensors. allreduce and broadcast also take a device's tensors: the call waits for
  // the device and copies to the host, and wait() copies back in the order of the current stream.
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
  // See NodeGroup::Stream. Both functions throw Failure.
  using PassBytes = std::function<void(void* data, size_t bytes)>;
  void Stream(int root, bool takes, const std::function<void(const PassBytes& pass)>& use);
  // Throws an error that names the missing ranks, as every operation here does.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  // A send is done when the message is copied, even if its receiver comes later. send and recv also
  // take a device's tensors, and then wait for the device.
  Work send(Tensors& tensors, int destination, int tag) override;
  Work recv(Tensors& tensors, int source, int tag) override;
  // After wait(), Work::sourceRank() is the sender.
  Work recvAnysource(Tensors& tensors, int tag) override;

  // Makes a group of `ranks`, numbered anew in this order. A collective of ALL ranks of this group:
  // members of a new group pass equal lists, other ranks pass {} and get nullptr.
  c10::intrusive_ptr<HostProcessGroup> NewGroup(const std::vector<int>& ranks);

  // Returns a zeroed 1-d tensor in shared memory, which may outlive the group. Collectives on it,
  // or on contiguous views of it, need no copy.
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return index < 0; }

 private:
  friend struct PartsInPlace;
  struct Core;
  class CollectiveWork;
  class MessageWork;

  HostProcessGroup(const UniqueFd& memory, const Options& options, std::chrono::nanoseconds spin);

  // `outputs`: the tensors that the operation writes, for the Work's future.
  Work Run(c10d::OpType type, bool async, Tensors outputs, OperationQueue::Function run);
  OperationQueue::Function Announced(c10d::OpType type, OperationQueue::Function run);
  // Returns the options of a new group of `ranks`, which are ranks of this group.
  Options OptionsFor(const std::vector<int>& ranks, uint16_t group) const;
  Work StartMessage(c10d::OpType type, const at::Tensor& tensor, int peer, int tag);

  std::shared_ptr<Core> core_;  // shared with the Work objects
};

}  // namespace ddprun::trainer
