// SEAM: collectives on flat memory, as one rank calls them. All ranks must call the same
// operations in the same order with the same sizes; where they do not, every rank gets an error
// that names the two operations. Results are bit-identical on all ranks, from run to run and
// however the ranks are placed on nodes: sums are taken in rank order, but for
// AllReduceAlgorithm::kRing.
#pragma once

#include <span>

#include "base/result.h"
#include "trainer/comm/data_type.h"
#include "trainer/comm/futex_wait.h"

namespace ddprun::trainer {

// One thread at a time, except for Cancel(). After an Error a group may be unusable.
class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The next operation is the one that the recorder has given this ticket.
  virtual void UseTicket(uint64_t ticket) = 0;

  // In place: `data` holds `count` elements, on return the reduction over the ranks.
  virtual Status AllReduce(void* data,
                           size_t count,
                           DataType type,
                           Reduction reduction,
                           Clock::time_point deadline,
                           AllReduceAlgorithm algorithm = AllReduceAlgorithm::kDirect) = 0;
  // `data` holds `bytes` bytes: read at `root`, written elsewhere.
  virtual Status Broadcast(void* data, size_t bytes, int root, Clock::time_point deadline) = 0;
  // `input`: `bytes` bytes of this rank; `output`: size() * bytes, in rank order. `input` may be
  // this rank's own place in `output`.
  virtual Status AllGather(const void* input,
                           void* output,
                           size_t bytes,
                           Clock::time_point deadline) = 0;
  // As AllReduce, but the result comes to `root` only; elsewhere `data` stays as it is.
  virtual Status Reduce(void* data,
                        size_t count,
                        DataType type,
                        Reduction reduction,
                        int root,
                        Clock::time_point deadline) = 0;
  // `input`: size() parts of `count` elements; `output`: the reduction of all ranks' parts number
  // rank().
  virtual Status ReduceScatter(const void* input,
                               void* output,
                               size_t count,
                               DataType type,
                               Reduction reduction,
                               Clock::time_point deadline) = 0;
  // Both: size() parts of `bytes` bytes; part i goes to rank i, part i comes from rank i.
  virtual Status AllToAll(const void* input,
                          void* output,
                          size_t bytes,
                          Clock::time_point deadline) = 0;
  // The same with parts of different sizes, packed in rank order. An error (on the rank that
  // expects another size than it is sent) leaves `output` undefined.
  virtual Status AllToAllV(const void* input,
                           std::span<const size_t> send_bytes,
                           void* output,
                           std::span<const size_t> receive_bytes,
                           Clock::time_point deadline) = 0;
  // `output`, at root only: size() * bytes, in rank order.
  virtual Status Gather(
      const void* input, void* output, size_t bytes, int root, Clock::time_point deadline) = 0;
  // `input`, at root only: size() * bytes; part i goes to rank i.
  virtual Status Scatter(
      const void* input, void* output, size_t bytes, int root, Clock::time_point deadline) = 0;
  // Returns when all ranks have called it.
  virtual Status Barrier(Clock::time_point deadline) = 0;

  // Makes the running operation and all later ones return an error soon. Any thread.
  virtual void Cancel() = 0;
};

}  // namespace ddprun::trainer
