// What all collectives begin and end with: the ranks of a node meet, having said what they are
// about to do and where their data lies in the memory that they share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainer/comm/chunk.h"
#include "trainer/comm/futex_wait.h"
#include "trainer/comm/node_operation.h"
#include "trainer/comm/shared_region.h"

namespace ddprun::trainer {

// The error (Code::kRankLost) of a wait for the rank `lost`, which has not come to `before`.
Error RankLost(int rank, int lost, const std::string& before);

// One rank's side. One thread at a time, except for Cancel(). `region` must outlive it.
class NodeMeeting {
 public:
  struct Options {
    int rank = 0;
    // How long a wait spins before it sleeps. Zero when ranks outnumber the cores.
    std::chrono::nanoseconds spin = std::chrono::microseconds(20);
    // Is told where each operation stands, if there is one; outlives the group.
    FlightRecorder* recorder = nullptr;
    // With a recorder, of the group of all ranks of one node: waits for a rank that is lost in this
    // generation, or has given it up, end with Code::kRankLost; on all ranks that live in the
    // same operation, if none gives up before.
    std::optional<int> generation = {};
    // What errors call the ranks of this node; empty: by their number in it.
    std::vector<int> names = {};
    uint16_t group = 0;                    // as Collective::group, for the recorder
    size_t staging_bytes = kStagingBytes;  // the same on all ranks
  };
  NodeMeeting(SharedRegion& region, Options options);
  ~NodeMeeting();
  NodeMeeting(const NodeMeeting&) = delete;
  NodeMeeting& operator=(const NodeMeeting&) = delete;

  int self() const { return options_.rank; }  // this rank, within the node
  int size() const { return region_.local_size(); }
  int NameOf(int rank) const;
  void UseTicket(uint64_t ticket) { ticket_ = ticket; }
  void Cancel() { cancelled_ = true; }
  const std::atomic<bool>& cancelled() const { return cancelled_; }
  SharedRegion& region() { return region_; }

  // Of the running operation, by the parity of its number.
  const OperationHeader& header(int rank) { return region_.control(rank).headers[sequence_ % 2]; }
  std::byte* Slot(int rank) { return region_.control(rank).slots[sequence_ % 2]; }

  // The next operation. `bytes`: the same on all ranks; `own_bytes`: of `data`, if that is
  // something else. Up to kSlotBytes go through the slots.
  NodeOperation Begin(CollectiveKind kind,
                      const void* data,
                      size_t bytes,
                      Clock::time_point deadline,
                      std::optional<size_t> own_bytes = {});
  // Says in `header` where the data lies: in this rank's heap, or in Staging().
  void Place(OperationHeader& header, const void* data, size_t bytes);
  Status Meet(const NodeOperation& operation);
  // The first meeting of an operation: an Error where another rank has begun something else.
  Status MeetAndCompare(const NodeOperation& operation);
  // The last meeting of an operation that may have failed on this rank alone: the first Error of
  // any rank of the node, on all of them. Waits a little beyond the deadline for its bearer.
  Status MeetAndShare(const NodeOperation& operation, const Status& own);
  // Until a word of that rank's control block has come to `target`.
  Status WaitFor(int rank,
                 std::atomic<uint32_t>& word,
                 std::atomic<uint32_t>& sleepers,
                 uint32_t target,
                 const NodeOperation& operation,
                 Clock::time_point deadline);
  // Says that this rank needs nothing more of what the others gave for the running operation.
  void EndReading();
  // Whether all ranks of the node have said so of the last operation: memory that they read may
  // then be freed. Waits a little for those that are about to, and calls `meanwhile` again and
  // again; false at once where this rank's operation has failed.
  bool WaitForReaders(const std::function<void()>& meanwhile);
  // Of this rank and the one that errors call `name`.
  Error Mismatch(const OperationHeader& own, const OperationHeader& theirs, int name) const;
  Error Cancelled(const NodeOperation& operation);

  size_t staging_bytes() const { return options_.staging_bytes; }
  // That much of the own heap.
  std::byte* Staging();
  // Where rank's data from byte `begin` on is; a staged piece is all that there is.
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
  uint64_t sequence_ = 0;         // operations begun so far; the number that errors name
  uint64_t ticket_ = 0;           // for the next operation; 0: none
  uint32_t phase_ = 0;            // how often this rank has arrived
  std::byte* staging_ = nullptr;  // allocated when first needed
  std::optional<int> lost_ = {};  // a rank that has not come to a meeting, and never will
};

}  // namespace ddprun::trainer
