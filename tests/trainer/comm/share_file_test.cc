#include "trainer/comm/share_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/trainer/comm/rank_threads.h"
#include "trainer/comm/shared_region.h"

namespace ddprun::trainer {
namespace {

std::string Name(const std::string& test) {
  return "ddprun-test." + test + "." + std::to_string(getpid());
}

TEST(ShareFile, GivesEveryRankTheSameFile) {
  std::vector<UniqueFd> files(4);
  RunRanks(4, [&](int rank) {
    auto file =
        ShareFile(Name("same"), rank, 4, std::chrono::seconds(60), SharedRegion::CreateFile);
    ASSERT_TRUE(file.has_value()) << Render(file.error());
    files[static_cast<size_t>(rank)] = std::move(*file);
  });
  struct stat first {};
  ASSERT_EQ(fstat(files[0].get(), &first), 0);
  for (const UniqueFd& file : files) {
    struct stat other {};
    ASSERT_EQ(fstat(file.get(), &other), 0);
    EXPECT_EQ(other.st_ino, first.st_ino);
  }
}

TEST(ShareFile, NamesTheRanksThatDidNotCome) {
  RunRanks(2, [&](int rank) {
    const auto file =
        ShareFile(Name("late"), rank, 4, std::chrono::milliseconds(300), SharedRegion::CreateFile);
    if (rank == 1) return;  // served
    ASSERT_FALSE(file.has_value());
    EXPECT_EQ(file.error().what, "Rank 0 waited for these ranks, but they did not come: 2, 3.");
  });
}

TEST(ShareFile, SaysThatRankZeroDidNotCome) {
  const auto file =
      ShareFile(Name("none"), 1, 2, std::chrono::milliseconds(20), SharedRegion::CreateFile);
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().what, "Rank 1 waited for rank 0, but rank 0 did not come.");
}

}  // namespace
}  // namespace ddprun::trainer
