#include <gtest/gtest.h>

#include <algorithm>

#include "launcher/process/posix_process.h"

namespace ddprun::launcher {
namespace {

rlimit Limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

// With a soft limit below the hard one, as a user has it.
class OpenFileLimitTest : public testing::Test {
 protected:
  OpenFileLimitTest() {
    rlimit low = before_;
    low.rlim_cur = std::min<rlim_t>(low.rlim_max, 256);
    setrlimit(RLIMIT_NOFILE, &low);
  }
  ~OpenFileLimitTest() override { setrlimit(RLIMIT_NOFILE, &before_); }

  const rlimit before_ = Limit();
};

TEST_F(OpenFileLimitTest, RaisesTheSoftLimitToTheHardOneWhileItLives) {
  const rlimit low = Limit();
  {
    const OpenFileLimit raised;
    EXPECT_EQ(Limit().rlim_cur, low.rlim_max);
    EXPECT_EQ(Limit().rlim_max, low.rlim_max);
  }
  EXPECT_EQ(Limit().rlim_cur, low.rlim_cur);
  EXPECT_EQ(Limit().rlim_max, low.rlim_max);
}

TEST_F(OpenFileLimitTest, GivesAChildWhatTheUserHasSet) {
  const rlimit low = Limit();
  const OpenFileLimit raised;
  raised.Restore();
  EXPECT_EQ(Limit().rlim_cur, low.rlim_cur);
}

}  // namespace
}  // namespace ddprun::launcher
