#include <gtest/gtest.h>

#include "launcher/agent/job_result.h"

namespace ddprun::launcher {
namespace {

using Kind = rendezvous::RoundEnd::Kind;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(EndAfterFailure, IsARestartWhileOneIsLeft) {
  EXPECT_EQ(EndAfterFailure(0, 0), Kind::kJobFailed);
  EXPECT_EQ(EndAfterFailure(0, 1), Kind::kRestart);
  EXPECT_EQ(EndAfterFailure(1, 1), Kind::kJobFailed);
  EXPECT_EQ(EndAfterFailure(4, 5), Kind::kRestart);
}

TEST(CrashLoop, PausesLongerAndLongerButNotTheFirstTime) {
  CrashLoop loop;
  std::vector<milliseconds> pauses;
  for (int i = 0; i < 8; ++i) pauses.push_back(loop.PauseAfter(milliseconds(100)));
  EXPECT_EQ(pauses, (std::vector<milliseconds>{milliseconds(0), milliseconds(250),
                                               milliseconds(500), seconds(1), seconds(2),
                                               seconds(4), seconds(4), seconds(4)}));
}

TEST(CrashLoop, ForgetsAfterAnAttemptThatLivedLongEnough) {
  CrashLoop loop;
  loop.PauseAfter(milliseconds(1));
  loop.PauseAfter(milliseconds(1));
  EXPECT_EQ(loop.PauseAfter(CrashLoop::kLongEnough), milliseconds(0));
  EXPECT_EQ(loop.PauseAfter(milliseconds(1)), milliseconds(250));
}

}  // namespace
}  // namespace ddprun::launcher
