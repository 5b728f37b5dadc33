// Collectives among the ranks of one node, through memory that they share.
//
// All ranks must call the same operations in the same order with the same sizes; where they do
// not, every rank gets an error that names the two operations. Results are bit-identical on all
// ranks and from run to run: sums are taken in rank order, but for AllReduceAlgorithm::kRing.
//
// Cost: an all-reduce of up to kSlotBytes takes one meeting of the ranks; a larger one two, and
// no copy when the data of every rank lies in memory from Allocate(); otherwise it is staged
// through the heap in pieces.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "trainer/comm/data_type.h"
#include "trainer/comm/futex_wait.h"
#include "trainer/comm/node_operation.h"
#include "trainer/comm/shared_region.h"

namespace ddprun::trainer {

// One rank's member of the group. One thread at a time, except for Cancel(). `region` must
// outlive it.
class NodeGroup {
 public:
  struct Options {
    int rank = 0;
    // How long a wait spins before it sleeps. Zero when ranks outnumber the cores.
    std::chrono::nanoseconds spin = std::chrono::microseconds(20);
    // Is told where each operation stands, if there is one; outlives the group.
    FlightRecorder* recorder = nullptr;
  };
  NodeGroup(SharedRegion& region, Options options);
  ~NodeGroup();

  int rank() const { return options_.rank; }
  int size() const { return region_.local_size(); }
  // Operations begun so far; the number that errors name.
  uint64_t sequence() const { return sequence_; }
  // The next operation is the one that the recorder has given this ticket.
  void UseTicket(uint64_t ticket) { ticket_ = ticket; }

  // In place: `data` holds `count` elements, on return the reduction over the ranks.
  Status AllReduce(void* data,
                   size_t count,
                   DataType type,
                   Reduction reduction,
                   Clock::time_point deadline,
                   AllReduceAlgorithm algorithm = AllReduceAlgorithm::kDirect);
  // `data` holds `bytes` bytes: read at `root`, written elsewhere.
  Status Broadcast(void* data, size_t bytes, int root, Clock::time_point deadline);
  // `input`: `bytes` bytes of this rank; `output`: size() * bytes, in rank order. `input` may be
  // this rank's own place in `output`.
  Status AllGather(const void* input, void* output, size_t bytes, Clock::time_point deadline);
  // As AllReduce, but the result comes to `root` only; elsewhere `data` stays as it is.
  Status Reduce(void* data,
                size_t count,
                DataType type,
                Reduction reduction,
                int root,
                Clock::time_point deadline);
  // `input`: size() parts of `count` elements; `output`: the reduction of all ranks' parts number
  // rank().
  Status ReduceScatter(const void* input,
                       void* output,
                       size_t count,
                       DataType type,
                       Reduction reduction,
                       Clock::time_point deadline);
  // Both: size() parts of `bytes` bytes; part i goes to rank i, part i comes from rank i.
  Status AllToAll(const void* input, void* output, size_t bytes, Clock::time_point deadline);
  // The same with parts of different sizes, packed in rank order. An error (on the rank that
  // expects another size than it is sent) leaves `output` undefined.
  Status AllToAllV(const void* input,
                   std::span<const size_t> send_bytes,
                   void* output,
                   std::span<const size_t> receive_bytes,
                   Clock::time_point deadline);
  // `output`, at root only: size() * bytes, in rank order.
  Status Gather(
      const void* input, void* output, size_t bytes, int root, Clock::time_point deadline);
  // `input`, at root only: size() * bytes; part i goes to rank i.
  Status Scatter(
      const void* input, void* output, size_t bytes, int root, Clock::time_point deadline);
  // Returns when all ranks have called it.
  Status Barrier(Clock::time_point deadline);

  // Makes the running operation and all later ones return an error soon. Any thread.
  void Cancel() { cancelled_ = true; }

 private:
  using Kind = CollectiveKind;
  using Operation = NodeOperation;
  struct Rows;
  struct Study;  // the other algorithms of all-reduce

  ControlBlock& mine() { return region_.control(options_.rank); }
  const OperationHeader& header(int rank) { return region_.control(rank).headers[sequence_ % 2]; }
  std::byte* Slot(int rank) { return region_.control(rank).slots[sequence_ % 2]; }

  // `bytes`: the same on all ranks; `own_bytes`: of `data`, if that is something else.
  Operation Begin(Kind kind,
                  const void* data,
                  size_t bytes,
                  Clock::time_point deadline,
                  std::optional<size_t> own_bytes = {});
  void Place(OperationHeader& header, const void* data, size_t bytes);
  Status Meet(const Operation& operation);
  Status MeetAndCompare(const Operation& operation);
  Error TimedOut(const Operation& operation);
  Error Cancelled(const Operation& operation);
  std::byte* Staging();

  Status ReduceThroughSlots(const Operation& operation, void* data, size_t count, bool receives);
  Status ReduceLarge(const Operation& operation, void* data, std::optional<int> root);
  // Piece by piece: work(begin, bytes) with PieceOf(every rank, begin) in place; then `data` has
  // what this rank's piece holds, if it `receives`.
  using Work = std::function<Status(size_t begin, size_t bytes)>;
  Status InPieces(const Operation& operation, void* data, bool receives, const Work& work);
  Status AllReduceBy(AllReduceAlgorithm algorithm, Operation& operation, void* data);
  std::vector<std::byte*> Pieces(size_t begin);
  Status Copy(const Operation& operation, const void* input, void* output, int first, int last);
  template <typename Collect>
  Status ShareRows(const Operation& operation,
                   const Rows& rows,
                   const void* input,
                   int first,
                   int last,
                   const Collect& collect);
  Status ShareSizes(std::span<const size_t> send_bytes,
                    std::vector<size_t>& all,
                    Clock::time_point deadline);
  size_t PieceBytes(size_t bytes, int first, int last);
  bool AnyStaged(int first, int last);
  std::byte* PieceOf(int rank, size_t begin);

  SharedRegion& region_;
  const Options options_;
  std::atomic<bool> cancelled_ = false;
  uint64_t sequence_ = 0;
  uint64_t ticket_ = 0;           // for the next operation; 0: none
  uint32_t phase_ = 0;            // how often this rank has arrived
  std::byte* staging_ = nullptr;  // kStagingBytes of the own heap, allocated when first needed
};

}  // namespace ddprun::trainer
