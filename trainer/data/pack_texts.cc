#include "trainer/data/pack_texts.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/check.h"

namespace ddprun::trainer {

std::vector<std::vector<int64_t>> PackTexts(std::span<const int64_t> lengths, int64_t capacity) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length = [&](int64_t text) { return lengths[static_cast<size_t>(text)]; };
  std::ranges::stable_sort(order, std::greater<>(), length);
  std::vector<std::vector<int64_t>> packs;
  std::multimap<int64_t, size_t> rooms;  // the packs by the room that they have left
  for (const int64_t text : order) {
    DDPRUN_CHECK(length(text) <= capacity);
    auto place = rooms.lower_bound(length(text));
    if (place == rooms.end()) {
      place = rooms.emplace(capacity, packs.size());
      packs.emplace_back();
    }
    const auto [room, pack] = *place;
    packs[pack].push_back(text);
    rooms.erase(place);
    rooms.emplace(room - length(text), pack);
  }
  return packs;
}

}  // namespace ddprun::trainer
