#include "trainer/text/merge_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>
#include <tuple>

namespace ddprun::trainer {

namespace {

constexpr size_t kShort = 48;  // symbols; for more, the heap is faster than a search

}  // namespace

MergeTable::MergeTable(std::span<const Merge> merges) {
  const size_t size = std::bit_ceil(std::max<size_t>(merges.size() * 2, 16));
  slots_.resize(size);
  mask_ = size - 1;
  shift_ = 64 - std::countr_zero(size);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    const uint64_t pair = Pair(merge.left, merge.right);
    size_t at = Place(pair);
    while (slots_[at & mask_].pair != UINT64_MAX && slots_[at & mask_].pair != pair) ++at;
    slots_[at & mask_] = {
        .pair = pair, .rank = static_cast<uint32_t>(rank), .result = merge.result};
  }
}

void MergeTable::Apply(std::vector<int32_t>& symbols) const {
  if (symbols.size() <= kShort) {
    ApplyToShort(symbols);
  } else {
    ApplyToLong(symbols);
  }
}

void MergeTable::ApplyToShort(std::vector<int32_t>& symbols) const {
  std::array<const Slot*, kShort> pairs;  // pairs[i]: of symbols i and i + 1
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = &Find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i]->rank < pairs[best]->rank) best = i;
    }
    if (pairs[best]->rank == kNone) break;
    symbols[best] = pairs[best]->result;
    std::copy(symbols.begin() + best + 2, symbols.begin() + count, symbols.begin() + best + 1);
    if (best + 2 < count) {
      std::copy(pairs.begin() + best + 2, pairs.begin() + count - 1, pairs.begin() + best + 1);
    }
    --count;
    if (best > 0) pairs[best - 1] = &Find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) pairs[best] = &Find(symbols[best], symbols[best + 1]);
  }
  symbols.resize(count);
}

void MergeTable::ApplyToLong(std::vector<int32_t>& symbols) const {
  struct Candidate {
    uint32_t rank;
    size_t left;  // index of the left symbol
    int32_t result;
    bool operator>(const Candidate& other) const {
      return std::tie(rank, left) > std::tie(other.rank, other.left);
    }
  };
  const size_t end = symbols.size();
  std::vector<size_t> next(end);
  std::vector<size_t> previous(end);  // of the first: end
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto propose = [&](size_t left) {
    const Slot& slot = Find(symbols[left], symbols[next[left]]);
    if (slot.rank != kNone) candidates.push({slot.rank, left, slot.result});
  };
  for (size_t i = 0; i < end; ++i) {
    next[i] = i + 1;
    previous[i] = i == 0 ? end : i - 1;
  }
  for (size_t i = 0; i + 1 < end; ++i) propose(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    const size_t right = symbols[best.left] < 0 ? end : next[best.left];
    // Skips a candidate whose symbols have changed since.
    if (right == end || Find(symbols[best.left], symbols[right]).result != best.result) continue;
    symbols[best.left] = best.result;
    symbols[right] = -1;
    next[best.left] = next[right];
    if (next[right] != end) previous[next[right]] = best.left;
    if (previous[best.left] != end) propose(previous[best.left]);
    if (next[best.left] != end) propose(best.left);
  }
  std::erase(symbols, -1);
}

}  // namespace ddprun::trainer
