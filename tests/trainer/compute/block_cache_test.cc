#include "trainer/compute/block_cache.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace ddprun::trainer {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(BlockCache, GivesABlockToTheNextOfAboutItsSize) {
  BlockCache cache;
  void* first = cache.Take(3 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  std::memset(first, 1, 3 * kMiB);
  cache.Give(first);
  EXPECT_GT(cache.idle_bytes(), 0u);
  EXPECT_EQ(cache.Take(3 * kMiB - 5000), first);
  EXPECT_EQ(cache.idle_bytes(), 0u);
  cache.Give(first);
}

TEST(BlockCache, ServesTheSameTensorsOfAShorterBatchFromTheBlocksOfALongOne) {
  BlockCache cache;
  void* of_long_batch = cache.Take(4 * kMiB);
  cache.Give(of_long_batch);
  void* of_short_batch = cache.Take(kMiB);
  EXPECT_EQ(of_short_batch, of_long_batch);
  cache.Give(of_short_batch);
  EXPECT_EQ(cache.Take(4 * kMiB), of_long_batch) << "the block must not have shrunk";
  cache.Give(of_long_batch);
}

TEST(BlockCache, TakesTheSmallestBlockThatIsLargeEnough) {
  BlockCache cache;
  void* large = cache.Take(4 * kMiB);
  void* fitting = cache.Take(2 * kMiB);
  cache.Give(fitting);
  cache.Give(large);
  EXPECT_EQ(cache.Take(kMiB), fitting);
  cache.Give(fitting);
}

TEST(BlockCache, DoesNotSpendALargeBlockOnASmallTensor) {
  BlockCache cache;
  void* large = cache.Take(32 * kMiB);
  cache.Give(large);
  void* small = cache.Take(kMiB);
  EXPECT_NE(small, large);
  cache.Give(small);
}

TEST(BlockCache, NeverGivesABlockThatIsInUseOrTooSmall) {
  BlockCache cache;
  void* one = cache.Take(kMiB);
  void* other = cache.Take(kMiB);
  EXPECT_NE(one, other);
  cache.Give(one);
  void* larger = cache.Take(2 * kMiB);
  EXPECT_NE(larger, one);
  std::memset(larger, 1, 2 * kMiB);
  cache.Give(larger);
  cache.Give(other);
}

TEST(BlockCache, DoesNotPileUpSizesThatNeverComeBack) {
  BlockCache cache;
  for (size_t i = 1; i <= 200; ++i) {
    const size_t bytes = kMiB + i * 64 * 1024;
    cache.Give(cache.Take(bytes));
  }
  // The largest took 13.5 MiB, in a class of 14 MiB.
  EXPECT_LE(cache.idle_bytes(), 21 * kMiB);
}

TEST(BlockCache, GivesBackWhatAPhaseLeaves) {
  BlockCache cache;
  void* kept = cache.Take(kMiB);
  cache.Give(cache.Take(32 * kMiB));
  EXPECT_GE(cache.idle_bytes(), 32 * kMiB);
  cache.Release();
  EXPECT_EQ(cache.idle_bytes(), 0U);
  // Release() has reset the most bytes used.
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(cache.Take(kMiB));
  for (void* block : blocks) cache.Give(block);
  EXPECT_LE(cache.idle_bytes(), 8 * kMiB);
  cache.Give(kept);
}

TEST(BlockCache, ReturnsNothingForWhatDoesNotFitIntoMemory) {
  BlockCache cache;
  EXPECT_EQ(cache.Take(size_t{1} << 60), nullptr);
  void* block = cache.Take(kMiB);
  EXPECT_NE(block, nullptr);
  cache.Give(block);
}

TEST(BlockCache, LeavesBlocksOfOthersAlone) {
  BlockCache cache;
  int number = 0;
  EXPECT_FALSE(cache.Give(&number));
  EXPECT_FALSE(cache.Give(nullptr));
}

TEST(CacheTensorMemory, ServesTensorsAndRawMemoryOfAnySize) {
  CacheTensorMemory();
  for (const size_t bytes : {size_t{0}, size_t{64}, kMiB, 5 * kMiB}) {
    c10::Allocator& allocator = *c10::GetCPUAllocator();
    void* raw = allocator.raw_allocate(bytes);
    if (bytes > 0) std::memset(raw, 1, bytes);
    allocator.raw_deallocate(raw);
    const c10::DataPtr data = allocator.allocate(bytes);
    if (bytes > 0) std::memset(data.get(), 1, bytes);
  }
}

}  // namespace
}  // namespace ddprun::trainer
