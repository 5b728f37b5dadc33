#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "launcher/sweep/sweep_run.h"
#include "tests/launcher/temp_folder.h"

namespace ddprun::launcher {
namespace {

class FinishedMark : public testing::Test {
 protected:
  FinishedMark() { std::filesystem::create_directory(folder_ + "/a"); }

  const TempFolder temporary_;
  const std::string folder_ = temporary_.path();
  const RunIdentity identity_{.config = "{} // \xff", .overrides = {"a.b=1"}, .workers = 2};
};

TEST_F(FinishedMark, IsFoundForTheSameRunOnly) {
  EXPECT_EQ(FindFinished(folder_, identity_), std::nullopt);
  ASSERT_TRUE(MarkFinished(folder_ + "/a", identity_).ok());
  EXPECT_EQ(FindFinished(folder_, identity_), folder_ + "/a");
  RunIdentity other = identity_;
  other.config = "{}";
  EXPECT_EQ(FindFinished(folder_, other), std::nullopt);
  other = identity_;
  other.overrides.push_back("c.d=2");
  EXPECT_EQ(FindFinished(folder_, other), std::nullopt);
  other = identity_;
  other.workers = 1;
  EXPECT_EQ(FindFinished(folder_, other), std::nullopt);
}

TEST_F(FinishedMark, IsNotBelievedWhenItIsBroken) {
  std::ofstream(folder_ + "/a/finished.json") << "{\"workers\": 2,";
  EXPECT_EQ(FindFinished(folder_, identity_), std::nullopt);
}

TEST_F(FinishedMark, NeedsAFolder) {
  EXPECT_FALSE(MarkFinished(folder_ + "/absent", identity_).ok());
  EXPECT_EQ(FindFinished("/nowhere", identity_), std::nullopt);
}

}  // namespace
}  // namespace ddprun::launcher
