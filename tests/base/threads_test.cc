#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "base/cpus.h"

namespace ddprun {
namespace {

TEST(RunOnThreadsTest, ThrowsWhatAThreadThrewAfterAllHaveEnded) {
  std::atomic<int> ended{0};
  const auto work = [&] {
    if (++ended == 2) throw std::runtime_error("second");
  };
  EXPECT_THROW(RunOnThreads(3, work), std::runtime_error);
  EXPECT_EQ(ended, 3);
}

TEST(RunInPartsTest, CoversEveryIndexOnceAndNothingBeyond) {
  for (const size_t count : {0, 1, 7, 8, 100}) {
    std::vector<int> visits(count, 0);
    RunInParts(3, count, 8, [&](size_t begin, size_t end) {
      EXPECT_LE(end - begin, 8u);
      for (size_t i = begin; i < end; ++i) ++visits.at(i);
    });
    EXPECT_EQ(visits, std::vector<int>(count, 1)) << count;
  }
}

}  // namespace
}  // namespace ddprun
