// The memory that the ranks of one node share: one unnamed file (memfd), mapped by every rank.
//
//   | control block of each rank | channel from each rank to each | heap of each rank |
//
// The file has no name, so nothing stays in /dev/shm if a process is killed: the kernel frees the
// memory with the last process that maps it. The file is sparse; only touched pages cost memory. A
// fresh file is all zeros, which is the valid first state of every control block.
//
// A file has room for several generations of this layout, one behind the other, so that its
// processes can leave a group and make a new one. The last rank that leaves a generation frees its
// memory. If only some processes of a group are replaced (Renew), the others take the control
// blocks of the next generation and keep their heaps: the heap of a process stays in the generation
// in which the process started. Behind all generations lies the kept memory of each rank.
#pragma once

#include <sys/types.h>
#include <unistd.h>

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

// Bytes of address space, not memory. 64 GiB hold the fp32 gradients of 16 billion parameters. Less
// under the thread sanitizer, because it leaves a process little address space and its tests map a
// region once per rank.
#ifdef __SANITIZE_THREAD__
inline constexpr size_t kHeapBytes = size_t{4} << 30;
#else
inline constexpr size_t kHeapBytes = size_t{64} << 30;
#endif

// Bytes of address space for the kept memory of each rank.
inline constexpr size_t kKeptBytes = size_t{1} << 37;

class SharedRegion {
 public:
  // Creates an empty file for the ranks of one node (close-on-exec).
  static Result<UniqueFd> CreateFile();

  // Maps the file for `local_size` ranks, all of which must pass equal numbers. `generation`: a new
  // one for every group of ranks that uses the file. `heap_bytes`: whole pages.
  static Result<std::unique_ptr<SharedRegion>> Map(const UniqueFd& file,
                                                   int local_size,
                                                   int generation = 0,
                                                   size_t heap_bytes = kHeapBytes);
  // A child of fork() that destroys its copy frees none of the memory, because it is no rank.
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  int local_size() const { return local_size_; }
  // Replaces the control blocks by those of another generation. REQUIRES: no thread of this process
  // uses the old control blocks; none uses other ranks' heaps until MapHeaps() has returned.
  Status Renew(int generation);
  // Maps the heaps of replaced ranks. Call it after the generation's first meeting, because the old
  // heaps may be in use until then.
  Status MapHeaps();
  int heap_generation() const { return heap_generation_; }
  // Frees the memory of earlier generations, except for mapped heaps, because killed ranks could
  // not free it. REQUIRES: no rank uses this memory.
  void FreeOldGenerations();
  ControlBlock& control(int rank);
  Channel& channel(int from, int to);
  std::byte* heap(int rank);

  // Allocates `bytes` of the rank's heap, zeroed and aligned to 64 bytes. Returns nullptr if the
  // heap is full. Only the process of this rank may allocate from its heap, on any of its threads.
  std::byte* Allocate(int rank, size_t bytes);
  // Returns the memory to the system. REQUIRES: no other rank uses it.
  void Free(int rank, std::byte* data);
  // Maps `bytes` of each rank's heap one after the other, read-only. parts[rank] is the offset in
  // the rank's heap; offsets and `bytes` are multiples of the page size. The mapping stays until
  // Unmap().
  Result<std::byte*> MapContiguously(std::span<const int64_t> parts, size_t bytes);
  static void Unmap(std::byte* data, size_t bytes);
  // Maps the rank's kept memory from offset `begin` on, which is a multiple of the page size, until
  // Unmap(). It is sparse, begins as zeros, and stays when its process is killed: the process that
  // replaces it maps the same memory. REQUIRES: begin + bytes <= kKeptBytes.
  Result<std::byte*> MapKept(int rank, size_t begin, size_t bytes) const;
  // Returns the offset of [data, data + bytes) in the rank's heap, or -1 if it does not lie there.
  int64_t HeapOffset(int rank, const void* data, size_t bytes);

 private:
  SharedRegion(UniqueFd file, int generation, std::byte* base, int local_size, size_t heap_bytes);
  bool IsForked() const;
  Status Remap(std::byte* data, size_t bytes, off_t begin);
  off_t FileOffsetOf(const std::byte* data) const;  // `data` is in a heap
  void Punch(off_t begin, off_t bytes);

  const UniqueFd file_;
  const int heap_generation_;  // the generation of this rank's heap
  int generation_;             // the generation of the control blocks
  std::byte* const base_;
  const int local_size_;
  const size_t heap_bytes_;
  const pid_t owner_ = getpid();
  std::vector<int> heaps_;  // by rank: the generation of the mapped heap
  std::mutex mutex_;
  std::map<size_t, size_t> used_;  // offset in the mapping -> bytes; guarded by mutex_
};

}  // namespace ddprun::trainer
