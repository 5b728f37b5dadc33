#include "trainer/worker/step_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ddprun::trainer {
namespace {

// Two ranks meet; the clock of the second is `offset` behind that of the first.
TEST(ClockOffset, IsExactToTheLengthOfTheShortestMeeting) {
  std::mt19937_64 random(7);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % limit); };
  for (int trial = 0; trial < 1000; ++trial) {
    const int64_t offset = below(2'000'000'000'000) - 1'000'000'000'000;
    std::vector<int64_t> came[2];
    std::vector<int64_t> left[2];
    int64_t shortest = INT64_MAX;
    for (int64_t meeting = 1; meeting <= 20; ++meeting) {
      const int64_t start = meeting * 1'000'000'000;
      const int64_t arrivals[2] = {start + below(100'000), start + below(100'000)};
      const int64_t all_here = std::max(arrivals[0], arrivals[1]);
      int64_t lengths = 0;
      for (int rank = 0; rank < 2; ++rank) {
        const int64_t clock = rank == 0 ? 0 : -offset;
        came[rank].push_back(arrivals[rank] + clock);
        left[rank].push_back(all_here + below(50'000) + clock);
        lengths += left[rank].back() - came[rank].back();
      }
      shortest = std::min(shortest, lengths / 2);
    }
    const int64_t found = ClockOffset({came[0], left[0]}, {came[1], left[1]});
    EXPECT_LE(std::abs(found - offset), shortest + 1) << "trial " << trial;
  }
}

}  // namespace
}  // namespace ddprun::trainer
