// Byte pair encoding: which two neighbours are merged, and in which order. LibTorch-free.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddprun::trainer {

struct Merge {
  int32_t left;
  int32_t right;
  int32_t result;
};

// Immutable after construction: any thread.
class MergeTable {
 public:
  // The first merge has rank 0. The last of equal pairs counts.
  explicit MergeTable(std::span<const Merge> merges);

  // Merges neighbours until no merge applies: the lowest rank first, and of equal ranks the
  // leftmost. Shortens `symbols`. O(n^2) for short words, O(n log n) for long ones.
  void Apply(std::vector<int32_t>& symbols) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Slot {
    uint64_t pair = UINT64_MAX;
    uint32_t rank = kNone;
    int32_t result = -1;
  };

  const Slot& Find(int32_t left, int32_t right) const {
    const uint64_t pair = Pair(left, right);
    for (size_t at = Place(pair);; ++at) {
      const Slot& slot = slots_[at & mask_];
      if (slot.pair == pair || slot.pair == UINT64_MAX) return slot;
    }
  }
  static uint64_t Pair(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t Place(uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15U) >> shift_; }

  void ApplyToShort(std::vector<int32_t>& symbols) const;
  void ApplyToLong(std::vector<int32_t>& symbols) const;

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  int shift_ = 0;
};

}  // namespace ddprun::trainer
