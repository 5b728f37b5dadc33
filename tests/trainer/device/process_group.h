// A c10d backend between simulated devices, for ranks that are threads of one process.
//
// It has the contract of LibTorch 2.11's ProcessGroupNCCL. Collectives run on a stream of their
// own, after the queue of the current stream; Work::wait() makes the current stream wait and
// returns at once. If asyncOp is false, they run on the current stream, and there is no Work. Sums
// are taken in rank order and have HostProcessGroup's bits.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tests/trainer/device/stream.h"

namespace ddprun::simulated {

// The meeting point of a group's ranks.
class Meeting {
 public:
  explicit Meeting(int size);
  ~Meeting();
  int size() const { return size_; }

  struct Visit {
    std::string operation;                 // must be equal on all ranks
    const std::vector<at::Tensor>* given;  // read by all ranks
  };
  // Called by kernels' threads. When all ranks have come, calls `take` with all ranks' visits.
  // Returns when all have called it. Throws if a rank does not come.
  void Meet(int rank,
            uint64_t number,
            const Visit& visit,
            std::chrono::milliseconds timeout,
            const std::function<void(const std::vector<Visit>&)>& take);
  // Ends all meetings with this error.
  void Abort(const std::string& reason);
  bool failed() const;

 private:
  struct State;
  const int size_;
  const std::unique_ptr<State> state_;
};

// Returns faults since the last call, a line each: work without wait(), groups without shutdown()
// or with one before the end of graphs that use them. Aborted groups do not count.
std::string TakeGroupFaults();

class SimulatedProcessGroup : public c10d::Backend {
 public:
  // For tensors of `device`. Errors of collectives are errors of the device.
  SimulatedProcessGroup(std::shared_ptr<Meeting> meeting, int rank, int device);
  ~SimulatedProcessGroup() override;

  const std::string getBackendName() const override { return "simulated"; }
  c10d::ErrorType getError() override { return c10d::ErrorType::SUCCESS; }
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void abort() override;
  // Makes the communicator, as the first collective does.
  void eagerConnectSingleDevice(at::Device device) override;
  void shutdown() override;
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  // REQUIRES: there is a communicator.
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options = {}) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options = {}) override;
  WorkPtr allgather(std::vector<Tensors>& outputs,
                    Tensors& inputs,
                    const c10d::AllgatherOptions& options = {}) override;
  WorkPtr _allgather_base(at::Tensor& output,
                          at::Tensor& input,
                          const c10d::AllgatherOptions& options = {}) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output,
                               at::Tensor& input,
                               const c10d::ReduceScatterOptions& options = {}) override;
  WorkPtr alltoall_base(at::Tensor& output,
                        at::Tensor& input,
                        std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options = {}) override;
  // The host waits in wait(), or in the call if asyncOp is false.
  WorkPtr barrier(const c10d::BarrierOptions& options = {}) override;

 private:
  // Computes this rank's outputs from all ranks' inputs.
  using Result = std::function<Tensors(const std::vector<Tensors>& given)>;
  struct Call {
    c10d::OpType type;
    bool async;
    std::chrono::milliseconds timeout;
    std::string how = {};  // root or reduction; must be equal on all ranks
  };
  WorkPtr Run(const Call& call,
              const Tensors& inputs,
              const Tensors& outputs,
              const Result& result);

  const std::shared_ptr<Meeting> meeting_;
  const int device_;
  const c10::Stream stream_;
  std::chrono::milliseconds timeout_ = std::chrono::minutes(1);
  bool connected_ = false;
  bool shut_down_ = false;
  SignalPtr last_;       // of the last collective: they run in order, also on different streams
  uint64_t number_ = 0;  // number of collectives begun
  const std::shared_ptr<int> in_graphs_ = std::make_shared<int>(0);  // recorded collectives hold it
  const std::shared_ptr<std::atomic<uint64_t>> run_ = std::make_shared<std::atomic<uint64_t>>(0);
};

// CudaModule::make_group for ranks that are threads, and for the thread's current device. Groups
// with the same `name` meet.
c10::intrusive_ptr<c10d::Backend> MakeGroup(const c10::intrusive_ptr<c10d::Store>& store,
                                            int rank,
                                            int size,
                                            std::chrono::milliseconds timeout,
                                            const std::string& name);

}  // namespace ddprun::simulated
