// SEAM: collectives on flat memory, as one rank calls them. All ranks must call the same operations
// in the same order with the same sizes. If they do not, every rank gets an error that names the
// two operations.
//
// Results are bit-identical on all ranks, in every run and for every placement of ranks on nodes,
// because sums are taken in rank order. AllReduceAlgorithm::kRing is the exception.
#pragma once

#include <span>

#include "base/result.h"
#include "trainer/comm/data_type.h"
#include "trainer/comm/futex_wait.h"

namespace ddprun::trainer {

// One thread at a time, except for Cancel(). After an Error, a group may be unusable.
class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Sets the flight recorder's ticket of the next operation.
  virtual void UseTicket(uint64_t ticket) = 0;

  // Reduces `data`, `count` elements on each rank, over all ranks; every `data` gets the result.
  virtual Status AllReduce(void* data,
                           size_t count,
                           DataType type,
                           Reduction reduction,
                           Clock::time_point deadline,
                           AllReduceAlgorithm algorithm = AllReduceAlgorithm::kDirect) = 0;
  // Copies `data`, `bytes` bytes, from `root` to all other ranks.
  virtual Status Broadcast(void* data, size_t bytes, int root, Clock::time_point deadline) = 0;
  // Gathers `input`, `bytes` bytes of each rank, into `output`: size() * `bytes` bytes in rank
  // order. `input` may be this rank's own place in `output`.
  virtual Status AllGather(const void* input,
                           void* output,
                           size_t bytes,
                           Clock::time_point deadline) = 0;
  // Reduces as AllReduce() does, but only `root` gets the result; other `data` does not change.
  virtual Status Reduce(void* data,
                        size_t count,
                        DataType type,
                        Reduction reduction,
                        int root,
                        Clock::time_point deadline) = 0;
  // Reduces part rank() of all ranks' inputs into `output`. `input` has size() parts of `count`
  // elements, `output` has `count` elements.
  virtual Status ReduceScatter(const void* input,
                               void* output,
                               size_t count,
                               DataType type,
                               Reduction reduction,
                               Clock::time_point deadline) = 0;
  // Sends part i of `input` to rank i, and receives part i of `output` from rank i. Both have
  // size() parts of `bytes` bytes.
  virtual Status AllToAll(const void* input,
                          void* output,
                          size_t bytes,
                          Clock::time_point deadline) = 0;
  // Exchanges parts as AllToAll() does, but of different sizes, packed in rank order. A receiver
  // that expects another size gets an error, and its `output` is undefined.
  virtual Status AllToAllV(const void* input,
                           std::span<const size_t> send_bytes,
                           void* output,
                           std::span<const size_t> receive_bytes,
                           Clock::time_point deadline) = 0;
  // Gathers `input`, `bytes` bytes of each rank, into the `output` of `root`: size() * `bytes`
  // bytes in rank order. Other ranks' `output` is not used.
  virtual Status Gather(
      const void* input, void* output, size_t bytes, int root, Clock::time_point deadline) = 0;
  // Sends part i of the `input` of `root` to rank i. That input has size() parts of `bytes` bytes;
  // other ranks' `input` is not used.
  virtual Status Scatter(
      const void* input, void* output, size_t bytes, int root, Clock::time_point deadline) = 0;
  // Returns when all ranks have called Barrier().
  virtual Status Barrier(Clock::time_point deadline) = 0;

  // Makes the running operation and all later ones return an error soon. Any thread.
  virtual void Cancel() = 0;
};

}  // namespace ddprun::trainer
