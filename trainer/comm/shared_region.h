// The memory that the ranks of one node share: one unnamed file (memfd), mapped by every rank.
//
//   | control block of each rank | channel from each rank to each | heap of each rank |
//
// Nothing has a name, so nothing is left in /dev/shm, whoever is killed: the kernel frees the
// memory with the last process that maps it. The file is sparse; only touched pages cost memory.
// A fresh file is all zeros, which is the valid first state of every control block.
//
// A file has room for several generations of this, one behind the other, so that the processes that
// share it may leave a group and make a new one. The memory of a generation is given back when all
// of its ranks have left it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "base/result.h"
#include "base/unique_fd.h"
#include "trainer/comm/packed_error.h"

namespace ddprun::trainer {

inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kSlotBytes = size_t{16} << 10;

// What a rank is about to do: written before it arrives, read by the others after.
struct OperationHeader {
  uint64_t sequence;
  uint64_t bytes;
  uint64_t heap_offset;   // of the data, if `direct`
  uint64_t inbox_offset;  // in the rank's heap: what comes from other nodes, if anything
  uint32_t kind;
  uint32_t type;
  uint32_t reduction;
  uint32_t root;
  uint32_t algorithm;
  uint32_t direct;  // the data lies in the rank's heap; otherwise it is staged piece by piece
};

// Whether two ranks are at the same operation; where its data lies is each rank's own affair.
bool SameOperation(const OperationHeader& a, const OperationHeader& b);

// One per rank; written by its owner only, except for `sleepers`.
struct ControlBlock {
  alignas(64) std::atomic<uint32_t> arrived;   // phases this rank has come to; a futex
  alignas(64) std::atomic<uint32_t> sleepers;  // peers asleep on `arrived`
  // By the parity of the operation's number: a rank may be one operation ahead of another.
  alignas(64) OperationHeader headers[2];
  alignas(64) std::byte slots[2][kSlotBytes];  // small messages travel here
  // The last operation of which this rank needs nothing more (NodeMeeting::EndReading).
  std::atomic<uint64_t> read;
  // What has gone wrong on this rank alone (NodeMeeting::MeetAndShare), in which operation.
  uint64_t failed_sequence;
  uint64_t failure_bytes;
  char failure[kPackedErrorBytes];
  // Of the first rank's block: how many ranks have left this generation.
  std::atomic<int> left;
};

// A message on its way: where it lies in the sender's heap.
struct Envelope {
  uint64_t bytes;
  uint64_t heap_offset;
  int32_t tag;
};

// A piece of a channel's queue.
struct EnvelopePage {
  static constexpr uint32_t kEnvelopes = 8;
  Envelope envelopes[kEnvelopes];
  int64_t next;  // where the page after it is, from the sender's heap on
};

// Messages from one rank to another; see channel.h. `read` is written by the receiver only, the
// rest, but for `sleepers`, by the sender only.
struct Channel {
  alignas(64) std::atomic<uint32_t> written;  // envelopes so far; a futex
  std::atomic<uint32_t> sleepers;             // receivers asleep on `written`
  alignas(64) std::atomic<uint32_t> read;
  EnvelopePage pages[2];  // the first ones; more come from the sender's heap
};

class SharedRegion {
 public:
  // A new empty file for the ranks of one node (close-on-exec).
  static Result<UniqueFd> CreateFile();

  // Maps the file for `local_size` ranks; all of them must give the same numbers. `generation`: a
  // new one for every group of ranks that uses the file.
  static Result<std::unique_ptr<SharedRegion>> Map(const UniqueFd& file,
                                                   int local_size,
                                                   int generation = 0);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  int local_size() const { return local_size_; }
  const UniqueFd& file() const { return file_; }
  // Gives back the memory of all generations before this one, which nobody uses any more: where
  // ranks were killed, they have not left.
  void FreePast() { Punch(0, begin_); }
  ControlBlock& control(int rank);
  Channel& channel(int from, int to);
  std::byte* heap(int rank);

  // `bytes` of rank's heap, aligned to 64 bytes, zeroed; nullptr when it is full. Only the process
  // of that rank may allocate from its heap; any thread of it.
  std::byte* Allocate(int rank, size_t bytes);
  // Gives the memory back to the system. Peers must not use it any more.
  void Free(int rank, std::byte* data);
  // `bytes` of each rank's heap, from these offsets on, one after the other in one mapping for
  // reading; `parts` and `bytes` of whole pages. Until Unmap().
  Result<std::byte*> MapInARow(std::span<const int64_t> parts, size_t bytes);
  static void Unmap(std::byte* data, size_t bytes);
  // The offset of [data, data + bytes) in rank's heap, or -1 when it does not lie there.
  int64_t HeapOffset(int rank, const void* data, size_t bytes);

 private:
  SharedRegion(UniqueFd file, off_t begin, std::byte* base, int local_size);
  void GiveBack(size_t offset, size_t bytes);
  void Punch(off_t begin, off_t bytes);

  const UniqueFd file_;
  const off_t begin_;  // of the generation in the file
  std::byte* const base_;
  const int local_size_;
  std::mutex mutex_;
  std::map<size_t, size_t> used_;  // offset in the mapping -> bytes; guarded by mutex_
};

}  // namespace ddprun::trainer
