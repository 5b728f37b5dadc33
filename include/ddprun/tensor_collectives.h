// c10d's collectives on tensors: the base of HostProcessGroup.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace ddprun {

class Status;
namespace trainer {
struct HostProcessGroupCore;
}

// One thread at a time. Every operation throws Failure.
class TensorCollectives : public c10d::Backend {
 public:
  // All operations take dense CPU tensors of any shape. Reductions take the types float32, float64,
  // float16, bfloat16, int32, int64 and uint8, and sum, avg, max, min and product; others take any
  // type. A list of tensors has one element per process, or one per rank if c10d requires it.
  // "_base" and "into_tensor" forms need contiguous tensors. allreduce and broadcast also take a
  // device's tensors: the call waits for the device and copies to the host, and wait() copies back
  // in the order of the current stream.
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
  // `outputs` has a list for each rank: its tensors in the order of `inputs`.
  Work allgather_coalesced(std::vector<Tensors>& outputs,
                           Tensors& inputs,
                           const c10d::AllgatherOptions& options) override;
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
  // Throws an error that names the missing ranks, as every operation here does.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 protected:
  TensorCollectives(int rank, int size, std::shared_ptr<trainer::HostProcessGroupCore> core)
      : Backend(rank, size), core_(std::move(core)) {}

  // See StartCollective().
  Work Run(c10d::OpType type, bool async, Tensors outputs, std::function<Status()> run);

  std::shared_ptr<trainer::HostProcessGroupCore> core_;  // shared with the Work objects
};

}  // namespace ddprun
