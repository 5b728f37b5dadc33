// A cache of the ids of words, so that a frequent word costs one lookup.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace ddprun::trainer {

// Each hash has one place, which the latest word takes. 1 MiB. Not thread-safe; see ForThread().
class WordCache {
 public:
  static constexpr size_t kMaxWord = 29;  // bytes; longer words are not cached
  static constexpr size_t kMaxIds = 8;

  // Returns the calling thread's cache, and empties it if another owner used it last. NextOwner()
  // numbers the owners, because a later owner may get an earlier one's address.
  static WordCache& ForThread(uint64_t owner) {
    static thread_local std::unique_ptr<WordCache> cache;
    if (!cache) cache = std::make_unique<WordCache>();
    if (cache->owner_ != owner) {
      std::fill(cache->entries_.begin(), cache->entries_.end(), Entry{});
      cache->owner_ = owner;
    }
    return *cache;
  }
  static uint64_t NextOwner() {
    static std::atomic<uint64_t> last{0};
    return ++last;
  }

  // Appends the ids of `word` and returns true, if the cache has it. REQUIRES: word is not empty.
  bool Find(std::string_view word, std::vector<int32_t>& ids) const {
    if (word.size() > kMaxWord) return false;
    const Entry& entry = entries_[Hash(word) % kEntries];
    if (entry.length != word.size() || std::memcmp(entry.word, word.data(), word.size()) != 0) {
      return false;
    }
    ids.insert(ids.end(), entry.ids, entry.ids + entry.count);
    return true;
  }

  void Insert(std::string_view word, std::span<const int32_t> ids) {
    if (word.size() > kMaxWord || ids.size() > kMaxIds) return;
    Entry& entry = entries_[Hash(word) % kEntries];
    entry.length = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.word, word.data(), word.size());
    std::copy(ids.begin(), ids.end(), entry.ids);
  }

 private:
  static constexpr size_t kEntries = 1 << 14;
  struct alignas(64) Entry {  // one cache line
    uint8_t length = 0;       // 0: free
    uint8_t count = 0;
    char word[kMaxWord] = {};
    int32_t ids[kMaxIds] = {};
  };
  static_assert(sizeof(Entry) == 64);

  static size_t Hash(std::string_view word) {
    uint64_t hash = word.size() * 0x9E3779B97F4A7C15U;
    const char* at = word.data();
    size_t left = word.size();
    for (; left >= 8; left -= 8, at += 8) hash = Mix(hash ^ Load(at, 8));
    if (left > 0) hash = Mix(hash ^ Load(at, left));
    return hash >> 32;
  }
  static uint64_t Load(const char* from, size_t bytes) {
    uint64_t value = 0;
    std::memcpy(&value, from, bytes);
    return value;
  }
  static uint64_t Mix(uint64_t value) {
    value *= 0xD6E8FEB86659FD93U;
    return value ^ value >> 32;
  }

  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
  uint64_t owner_ = 0;
};

}  // namespace ddprun::trainer
