#include "trainer/compute/block_cache.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

namespace ddprun::trainer {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Texts, and so a step's tensors, have other lengths in each step, so a block also serves smaller
// tensors. The limit is there because small tensors that live long would hold large blocks.
constexpr size_t kLargestExcess = 8;

// There are eight classes for each power of two, so a block is at most 1/8 too large.
size_t ClassOf(size_t bytes) {
  const size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

void* Map(size_t bytes) {
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return nullptr;
  // If the kernel refuses, the block has ordinary pages.
  if (bytes >= 2 * kHugePage) madvise(block, bytes, MADV_HUGEPAGE);
  return block;
}

class TensorAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes < BlockCache::kSmallest) {
      void* block = c10::alloc_cpu(bytes);
      return {block, block, &c10::free_cpu, cpu};
    }
    void* block = Cache().Take(bytes);
    TORCH_CHECK(block != nullptr, "not enough memory: you tried to allocate ", bytes, " bytes.");
    return {block, block, &Free, cpu};
  }

  // For oneDNN, which allocates and frees scratch memory without a DataPtr.
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }

  void copy_data(void* destination, const void* source, std::size_t count) const override {
    std::memcpy(destination, source, count);
  }

  // Static, because a deleter gets only the block. Not destroyed, because tensors outlive statics.
  static BlockCache& Cache() {
    static BlockCache& cache = *new BlockCache;
    return cache;
  }

 private:
  static void Free(void* block) {
    if (!Cache().Give(block)) c10::free_cpu(block);
  }
};

}  // namespace

BlockCache::~BlockCache() {
  const std::lock_guard lock(mutex_);
  FreeIdle(0);
}

void* BlockCache::Take(size_t bytes) {
  size_t size = ClassOf(bytes);
  const std::lock_guard lock(mutex_);
  void* block = nullptr;
  const auto found = idle_.lower_bound(size);
  if (found != idle_.end() && found->first / size < kLargestExcess) {
    size = found->first;
    block = found->second.back();
    found->second.pop_back();
    if (found->second.empty()) idle_.erase(found);
    idle_bytes_ -= size;
  } else {
    block = Map(size);
    if (block == nullptr) {
      FreeIdle(0);
      block = Map(size);
    }
    if (block == nullptr) return nullptr;
  }
  used_.emplace(block, size);
  used_bytes_ += size;
  most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  return block;
}

bool BlockCache::Give(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(block);
  if (found == used_.end()) return false;
  const size_t size = found->second;
  used_.erase(found);
  idle_[size].push_back(block);
  used_bytes_ -= size;
  idle_bytes_ += size;
  FreeIdle(std::max(most_used_bytes_ - used_bytes_, most_used_bytes_ / 2));
  return true;
}

void BlockCache::FreeIdle(size_t allowed) {
  for (auto it = idle_.begin(); it != idle_.end() && idle_bytes_ > allowed;) {
    while (!it->second.empty() && idle_bytes_ > allowed) {
      munmap(it->second.back(), it->first);
      it->second.pop_back();
      idle_bytes_ -= it->first;
    }
    it = it->second.empty() ? idle_.erase(it) : std::next(it);
  }
}

void BlockCache::Release() {
  const std::lock_guard lock(mutex_);
  FreeIdle(0);
  most_used_bytes_ = used_bytes_;
}

size_t BlockCache::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  return idle_bytes_;
}

void CacheTensorMemory() {
  c10::SetCPUAllocator(new TensorAllocator, /*priority=*/1);
}

void ReleaseTensorMemory() {
  TensorAllocator::Cache().Release();
}

}  // namespace ddprun::trainer
