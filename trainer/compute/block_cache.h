// Keeps the memory of freed large tensors for later tensors of about the same size. glibc returns
// blocks above 32 MiB (at first 128 KiB) to the kernel, which then clears pages in each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace ddprun::trainer {

// Any thread.
class BlockCache {
 public:
  // Smaller blocks are not kept; malloc does well with them.
  static constexpr size_t kSmallest = size_t{256} << 10;

  BlockCache() = default;
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // Returns a block of at least `bytes`, aligned to 64 bytes, with any content: the smallest idle
  // block of less than eight times the size, or a new one; nullptr if there is no memory.
  void* Take(size_t bytes);
  // Takes a block back. Returns false, and does nothing, if the block is not from Take().
  bool Give(void* block);

  // Returns the bytes of idle blocks. Idle and used blocks together stay below 1.5 times the most
  // bytes that were used at once, so that sizes that never come again do not pile up.
  size_t idle_bytes() const;

  // Frees idle blocks, and resets the most bytes used to the bytes used now.
  void Release();

 private:
  void FreeIdle(size_t allowed);

  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> idle_;  // by size class; none is empty
  std::unordered_map<void*, size_t> used_;     // size class of each block
  size_t idle_bytes_ = 0;
  size_t used_bytes_ = 0;
  size_t most_used_bytes_ = 0;
};

// From now on LibTorch's CPU tensors use a BlockCache. Called once, before there are large tensors.
void CacheTensorMemory();

// Frees idle blocks, because another phase begins, which uses other sizes.
void ReleaseTensorMemory();

}  // namespace ddprun::trainer
