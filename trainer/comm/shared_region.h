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
// of its ranks have left it. Where only some processes of a group are replaced (Renew), the others
// take the control blocks of the next generation and keep their heaps: a heap is in the generation
// in which its process has come.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "trainer/comm/control_block.h"

namespace ddprun::trainer {

inline constexpr size_t kPageBytes = 4096;

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
  // Goes on with the control blocks of another generation. REQUIRES: no thread uses those of before
  // any more; heaps of other ranks neither, until MapHeaps().
  Status Renew(int generation);
  // Maps the heaps of ranks that have come in place of others. After the generation's first
  // meeting: until then those of before may be in use.
  Status MapHeaps();
  int born() const { return born_; }
  // Gives back what nobody uses any more of the generations before this one: where ranks were
  // killed, they have not left.
  void FreePast();
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
  SharedRegion(UniqueFd file, int generation, std::byte* base, int local_size);
  Status MapAgain(std::byte* data, size_t bytes, off_t begin);
  off_t FileOffsetOf(const std::byte* data) const;  // in a heap
  void Punch(off_t begin, off_t bytes);

  const UniqueFd file_;
  const int born_;  // the generation of the own heap
  int generation_;  // of the control blocks
  std::byte* const base_;
  const int local_size_;
  std::vector<int> heaps_;  // by rank: the generation of the heap that is mapped
  std::mutex mutex_;
  std::map<size_t, size_t> used_;  // offset in the mapping -> bytes; guarded by mutex_
};

}  // namespace ddprun::trainer
