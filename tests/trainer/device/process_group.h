// A c10d backend between simulated devices, for ranks that are threads of one process.
//
// It has the contract of LibTorch 2.11's ProcessGroupNCCL. Collectives run on a stream of their
// own, after the queue of the current stream; Work::wait() makes the current stream wait and
// returns at once. If asyncOp is false, they run on the current stream, and there is no Work. Sums
// are taken in rank order and have HostProcessGroup's bits.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
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
  // Ends all meetings with this error, also those of pairs.
  void Abort(const std::string& reason);
  bool failed() const;
  // Returns the meeting point of two of the ranks, which number themselves in their order.
  std::shared_ptr<Meeting> OfPair(int one, int other);

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
  // Each two ranks have a communicator of their own, with a stream on each: messages between them
  // take place one by one, in the order of their calls, and a send ends when it was received. They
  // are always asynchronous; nobody need wait for a send.
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  // The host waits in wait(), or in the call if asyncOp is false.
  WorkPtr barrier(const c10d::BarrierOptions& options = {}) override;

 private:
  // Computes this rank's outputs from all ranks' inputs.
  using Result = std::function<Tensors(const std::vector<Tensors>& given)>;
  struct Call {
    c10d::OpType type;
    bool async;
    std::chrono::milliseconds timeout;
    std::string how = {};   // root or reduction; must be equal on all ranks
    std::string name = {};  // "": that of the type
  };
  // One communicator.
  struct Channel {
    Channel(std::shared_ptr<Meeting> meeting_point, int own_rank, int device)
        : meeting(std::move(meeting_point)), rank(own_rank), stream(StreamFromPool(device)) {}
    const std::shared_ptr<Meeting> meeting;
    const int rank;
    const c10::Stream stream;
    SignalPtr last = {};  // of the last operation: they run in order, also on different streams
    const std::shared_ptr<std::atomic<uint64_t>> run = std::make_shared<std::atomic<uint64_t>>(0);
  };
  WorkPtr Run(const Call& call,
              Channel& channel,
              const Tensors& inputs,
              const Tensors& outputs,
              const Result& result);
  WorkPtr RunOnAll(const Call& call,
                   const Tensors& inputs,
                   const Tensors& outputs,
                   const Result& result) {
    return Run(call, all_, inputs, outputs, result);
  }
  WorkPtr Exchange(c10d::OpType type, int from, int to, const Tensors& tensors);

  const std::shared_ptr<Meeting> meeting_;
  const int device_;
  Channel all_;
  std::map<int, Channel> pairs_;  // by the other rank
  std::chrono::milliseconds timeout_ = std::chrono::minutes(1);
  bool connected_ = false;
  bool shut_down_ = false;
  uint64_t number_ = 0;                                              // number of operations begun
  const std::shared_ptr<int> in_graphs_ = std::make_shared<int>(0);  // recorded collectives hold it
};

// CudaModule::make_group for ranks that are threads, and for the thread's current device. Groups
// with the same `name` meet.
c10::intrusive_ptr<c10d::Backend> MakeGroup(const c10::intrusive_ptr<c10d::Store>& store,
                                            int rank,
                                            int size,
                                            std::chrono::milliseconds timeout,
                                            const std::string& name);

}  // namespace ddprun::simulated
