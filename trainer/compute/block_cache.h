// Keeps the memory of large tensors for the next ones of about their size. glibc gives blocks above
// 32 MiB, at first above 128 KiB, back to the kernel as they are freed, and every training step
// then pays for having the same pages cleared again.
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
  // Sizes from here on are kept; smaller ones are malloc's business.
  static constexpr size_t kSmallest = size_t{256} << 10;

  BlockCache() = default;
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // A block of at least `bytes`, aligned to 64: the smallest idle one of less than eight times the
  // size, or a new one; nullptr when there is no memory. Its content is what it was left with.
  void* Take(size_t bytes);
  // False, and nothing is done, for a block that is none of its own.
  bool Give(void* block);

  // Of blocks that wait for the next Take. With those in use they stay below one and a half times
  // the most that was ever in use at once: sizes that never come back do not pile up.
  size_t idle_bytes() const;

  // Gives idle blocks back, and begins anew with what is the most in use.
  void Release();

 private:
  void FreeIdle(size_t allowed);

  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> idle_;  // by size class; none is empty
  std::unordered_map<void*, size_t> used_;     // its size class
  size_t idle_bytes_ = 0;
  size_t used_bytes_ = 0;
  size_t most_used_bytes_ = 0;
};

// Makes LibTorch's tensors on the CPU come from a BlockCache, for the rest of the process. Once,
// before there are any tensors to speak of.
void CacheTensorMemory();

// What was freed until now is given back: another phase begins, which uses other sizes.
void ReleaseTensorMemory();

}  // namespace ddprun::trainer
