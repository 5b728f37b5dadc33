// A HostProcessGroup as users of torch.distributed in Python expect a backend: its errors are
// DistBackendErrors, and a child of fork() does not disturb it.
#pragma once

#include <c10/util/Exception.h>
#include <sys/types.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <vector>

#include <ddprun/error.h>
#include <ddprun/process_group.h>

namespace ddprun::python {

// Returns the error for Python's users, who have no config of the trainer.
std::string TextFor(const Error& error);

// Returns call(), with a DistBackendError instead of any Failure.
template <typename Call>
auto Translated(const Call& call) {
  try {
    return call();
  } catch (const Failure& failure) {
    C10_THROW_ERROR(DistBackendError, TextFor(failure.error()));
  }
}

class TorchBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<Tensors>;
  using Work = c10::intrusive_ptr<c10d::Work>;

  explicit TorchBackend(c10::intrusive_ptr<HostProcessGroup> group);
  ~TorchBackend() override;

  const std::string getBackendName() const override { return "ddprun"; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void abort() override;
  void shutdown() override;  // later operations fail
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return index < 0; }

  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_coalesced(Tensors& tensors,
                           const c10d::AllreduceCoalescedOptions& options) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Work allgather_coalesced(Lists& outputs,
                           Tensors& inputs,
                           const c10d::AllgatherOptions& options) override;
  Work _allgather_base(at::Tensor& output,
                       at::Tensor& input,
                       const c10d::AllgatherOptions& options) override;
  Work allgather_into_tensor_coalesced(Tensors& outputs,
                                       Tensors& inputs,
                                       const c10d::AllgatherOptions& options) override;
  Work gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Work scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override;
  Work reduce_scatter(Tensors& outputs,
                      Lists& inputs,
                      const c10d::ReduceScatterOptions& options) override;
  Work _reduce_scatter_base(at::Tensor& output,
                            at::Tensor& input,
                            const c10d::ReduceScatterOptions& options) override;
  Work reduce_scatter_tensor_coalesced(Tensors& outputs,
                                       Tensors& inputs,
                                       const c10d::ReduceScatterOptions& options) override;
  Work alltoall_base(at::Tensor& output,
                     at::Tensor& input,
                     std::vector<int64_t>& output_splits,
                     std::vector<int64_t>& input_splits,
                     const c10d::AllToAllOptions& options) override;
  Work alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  Work barrier(const c10d::BarrierOptions& options) override;
  Work send(Tensors& tensors, int destination, int tag) override;
  Work recv(Tensors& tensors, int source, int tag) override;
  Work recvAnysource(Tensors& tensors, int tag) override;

 private:
  // Returns the Work of start(group), with errors for Python's users. torch.profiler shows it as
  // `title` with the shapes of `tensors`.
  template <typename Start>
  Work Run(c10d::OpType type, const char* title, const Tensors& tensors, const Start& start);
  bool IsForked() const { return ::getpid() != owner_; }
  // Returns nullptr after shutdown() and in a forked child. The caller keeps the group alive while
  // it uses it, because another thread may call shutdown().
  c10::intrusive_ptr<HostProcessGroup> Group() const;

  const pid_t owner_ = ::getpid();
  mutable std::mutex mutex_;                    // guards group_
  c10::intrusive_ptr<HostProcessGroup> group_;  // nullptr after shutdown()
};

}  // namespace ddprun::python
