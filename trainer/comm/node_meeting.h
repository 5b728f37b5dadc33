// The meetings with which all collectives begin and end. Before a meeting, each rank of a node
// describes its operation, and where its data is in the shared memory.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "trainer/comm/chunk.h"
#include "trainer/comm/futex_wait.h"
#include "trainer/comm/loss_watch.h"
#include "trainer/comm/node_operation.h"
#include "trainer/comm/shared_region.h"

namespace ddprun::trainer {

// One rank's member. One thread at a time, except for Cancel(). `region` must outlive it.
class NodeMeeting {
 public:
  struct Options {
    int rank = 0;
    // Time that a wait spins before it sleeps. 0 if the node has more ranks than cores.
    std::chrono::nanoseconds spin = std::chrono::microseconds(20);
    // Records the progress of each operation; nullptr means none. Outlives the group.
    FlightRecorder* recorder = nullptr;
    // Waits for a lost rank, or one that has given up, end with Code::kRankLost. On one node all
    // living ranks fail in one operation, unless one gives up before.
    LossWatch losses = {};
    // The numbers of this node's ranks in errors; empty: their places in the node.
    std::vector<int> names = {};
    uint16_t group = 0;                    // Collective::group, for the recorder
    size_t staging_bytes = kStagingBytes;  // equal on all ranks
    // Called before the first meeting of each operation.
    std::function<void(const OperationHeader& header, const std::atomic<bool>& cancelled)>
        on_begin = [](const OperationHeader&, const std::atomic<bool>&) {};
  };
  NodeMeeting(SharedRegion& region, Options options);
  ~NodeMeeting();
  NodeMeeting(const NodeMeeting&) = delete;
  NodeMeeting& operator=(const NodeMeeting&) = delete;

  const LossWatch& losses() const { return options_.losses; }
  int self() const { return options_.rank; }  // this rank's place in the node
  int size() const { return region_.local_size(); }
  int NameOf(int rank) const;
  void UseTicket(uint64_t ticket) { ticket_ = ticket; }
  void Cancel() { cancelled_ = true; }
  const std::atomic<bool>& cancelled() const { return cancelled_; }
  SharedRegion& region() { return region_; }
  uint64_t sequence() const { return sequence_; }  // of the running operation

  // Return the rank's header and slot for the running operation. After a loss this rank writes to
  // neither: it waits for nobody then, and others may still read those of two operations before.
  const OperationHeader& header(int rank) { return region_.control(rank).headers[sequence_ % 2]; }
  std::byte* Slot(int rank) {
    if (lost_ && rank == self()) return unseen_.data();
    return region_.control(rank).slots[sequence_ % 2];
  }

  // Begins an operation. `bytes` is equal on all ranks; `own_bytes` is the size of `data` if that
  // differs. Up to kSlotBytes go through the slots.
  NodeOperation Begin(CollectiveKind kind,
                      const void* data,
                      size_t bytes,
                      Clock::time_point deadline,
                      std::optional<size_t> own_bytes = {});
  // Sets in `header` where the data is: in this rank's heap, or in Staging().
  void Place(OperationHeader& header, const void* data, size_t bytes);
  Status Meet(const NodeOperation& operation) { return Meet(operation, operation.deadline); }
  // The first meeting of an operation. Returns an error if a rank has begun another operation.
  Status MeetAndCompare(const NodeOperation& operation);
  // The last meeting of an operation that may have failed on one rank: returns the first error of
  // any rank of the node, on all ranks. Waits 2 s beyond the deadline for the failed rank.
  Status MeetAndShare(const NodeOperation& operation, const Status& own);
  // Waits until `word` in the control block of `rank` has reached `target`.
  Status WaitFor(int rank,
                 std::atomic<uint32_t>& word,
                 std::atomic<uint32_t>& sleepers,
                 uint32_t target,
                 const NodeOperation& operation,
                 Clock::time_point deadline);

  size_t staging_bytes() const { return options_.staging_bytes; }
  // Returns staging memory: staging_bytes() of this rank's heap.
  std::byte* Staging();
  // Returns the data of `rank` from byte `begin` on; if staged, the current piece.
  std::byte* PieceOf(int rank, size_t begin);
  std::vector<std::byte*> Pieces(size_t begin);
  bool AnyStaged(int first, int last);

 private:
  ControlBlock& mine() { return region_.control(options_.rank); }
  Status Meet(const NodeOperation& operation, Clock::time_point deadline);
  bool IsLost(int rank) const;
  Error TimedOut(const NodeOperation& operation);

  SharedRegion& region_;
  const Options options_;
  std::atomic<bool> cancelled_ = false;
  uint64_t sequence_ = 0;         // operations begun so far; errors show this number
  uint64_t ticket_ = 0;           // of the next operation; 0: none
  uint32_t phase_ = 0;            // number of this rank's meetings so far
  std::byte* staging_ = nullptr;  // allocated when first needed
  std::optional<int> lost_ = {};  // the rank that missed a meeting because it was lost
  std::vector<std::byte> unseen_ = std::vector<std::byte>(kSlotBytes);  // this rank's slot then
};

}  // namespace ddprun::trainer
