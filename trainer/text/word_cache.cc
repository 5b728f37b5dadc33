#include "trainer/text/word_cache.h"

#include <atomic>

namespace ddprun::trainer {

WordCache& WordCache::ForThread(uint64_t owner) {
  static thread_local std::unique_ptr<WordCache> cache;
  if (!cache) cache = std::make_unique<WordCache>();
  if (cache->owner_ != owner) {
    std::fill(cache->entries_.begin(), cache->entries_.end(), Entry{});
    cache->owner_ = owner;
  }
  return *cache;
}

uint64_t WordCache::NextOwner() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace ddprun::trainer
