// A process group for CPU tensors: a c10d backend over memory shared by the ranks of a node, and
// over UCX between nodes.
// The rules of c10d hold: all ranks call the same operations in the same order. With asyncOp (the
// default of c10d) an operation runs in the background and Work::wait() blocks until its result is
// there; without asyncOp, the call itself blocks. A Work may outlive the group; the group's
// destructor cancels running operations. wait(), or the call itself, throws ddprun::Failure, which
// names the operation and the missing ranks.
#pragma once

#include <chrono>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <ddprun/options.h>
#include <ddprun/tensor_collectives.h>

namespace ddprun {

class UniqueFd;
namespace trainer {
class KeptMemory;
struct PartsInPlace;
struct PeerWatch;
}  // namespace trainer

class HostProcessGroup : public TensorCollectives {
 public:
  struct Options;
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
  // Ranks may use tensors of this group until the first collective is done. A collective over
  // several nodes.
  void Renew();
  void FreeOldGenerations();  // frees earlier generations; call it when no rank uses them
  int generation() const;
  int nodes() const;  // that have ranks of the group
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override;  // collectives begun so far

  // Passes bytes of `root` to the ranks that take them. A collective. Both functions throw Failure.
  using PassBytes = std::function<void(void* data, size_t bytes)>;
  void Stream(int root, bool takes, const std::function<void(const PassBytes& pass)>& use);

  // A send is done when the message is copied, even if its receiver comes later. send and recv also
  // take a device's tensors, and then wait for the device.
  Work send(Tensors& tensors, int destination, int tag) override;
  Work recv(Tensors& tensors, int source, int tag) override;
  Work recvAnysource(Tensors& tensors, int tag) override;  // then sourceRank() is the sender

  // Makes a group of `ranks`, numbered anew in this order. A collective of ALL ranks of this group:
  // members of a new group pass equal lists, other ranks pass {} and get nullptr.
  c10::intrusive_ptr<HostProcessGroup> NewGroup(const std::vector<int>& ranks);

  // Returns a zeroed 1-d tensor in shared memory, which may outlive the group. Collectives on it,
  // or on contiguous views of it, need no copy.
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return index < 0; }

 private:
  friend class trainer::KeptMemory;
  friend struct trainer::PartsInPlace;
  friend struct trainer::PeerWatch;

  HostProcessGroup(const UniqueFd& memory, const Options& options, std::chrono::nanoseconds spin);
};

// Makes the process group of all ranks for a program of your own, from the environment that ddprun,
// torchrun or srun has set. A collective, which all ranks may call again. `timeout` is also the
// default timeout of the group's later collectives. Throws Failure. From then on, a crash prints a
// stack and an uncaught exception prints its text, unless the program has its own handlers.
c10::intrusive_ptr<HostProcessGroup> init_process_group(
    std::chrono::milliseconds timeout = std::chrono::minutes(30));

// Connects to the job's store at MASTER_ADDR:MASTER_PORT. Wrap it in a c10d::PrefixStore, because
// others have keys in it. `timeout` limits connecting and every later wait. Throws Failure.
c10::intrusive_ptr<c10d::Store> job_store(
    std::chrono::milliseconds timeout = std::chrono::minutes(5));

}  // namespace ddprun
