#include "trainer/data/pack_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Packs = std::vector<std::vector<int64_t>>;

// As written in a book: tries every pack for each text.
Packs BestFit(const std::vector<int64_t>& lengths, int64_t capacity) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < std::ssize(lengths); ++i) order.push_back(i);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  Packs packs;
  std::vector<int64_t> rooms;
  for (const int64_t text : order) {
    int64_t least = capacity + 1;
    for (const int64_t room : rooms) {
      if (room >= lengths[text]) least = std::min(least, room);
    }
    size_t pack = std::ranges::find(rooms, least) - rooms.begin();
    if (pack == packs.size()) {
      packs.emplace_back();
      rooms.push_back(capacity);
    }
    packs[pack].push_back(text);
    rooms[pack] -= lengths[text];
  }
  return packs;
}

TEST(PackTexts, FillsThePackWithTheLeastRoom) {
  EXPECT_THAT(PackTexts(std::vector<int64_t>{4, 9, 6, 1, 7}, 10),
              ElementsAre(ElementsAre(1, 3), ElementsAre(4), ElementsAre(2, 0)));
  EXPECT_THAT(PackTexts({}, 10), IsEmpty());
  EXPECT_THAT(PackTexts(std::vector<int64_t>{10, 10}, 10),
              ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(PackTexts, HasEachTextOnceAndAsFewPacksAsBestFit) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const int64_t capacity = 1 + static_cast<int64_t>(random() % 40);
    std::vector<int64_t> lengths(random() % 60);
    for (int64_t& length : lengths) length = static_cast<int64_t>(random() % (capacity + 1));
    const Packs packs = PackTexts(lengths, capacity);
    EXPECT_EQ(packs.size(), BestFit(lengths, capacity).size());
    std::vector<int64_t> found;
    for (const auto& pack : packs) {
      int64_t sum = 0;
      for (const int64_t text : pack) sum += lengths[text];
      EXPECT_LE(sum, capacity);
      found.insert(found.end(), pack.begin(), pack.end());
    }
    std::ranges::sort(found);
    EXPECT_EQ(found.size(), lengths.size());
    EXPECT_THAT(found, testing::ElementsAreArray([&] {
                  std::vector<int64_t> all;
                  for (int64_t i = 0; i < std::ssize(lengths); ++i) all.push_back(i);
                  return all;
                }()));
  }
}

}  // namespace
}  // namespace ddprun::trainer
