#include "launcher/batch/slurm_times.h"

#include <gmock/gmock.h>
#include <signal.h>

#include "launcher/agent/stop_grace.h"

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;

TEST(TimeLeft, IsReadInEveryFormOfSqueue) {
  EXPECT_EQ(ReadTimeLeft("5:00\n"), 5min);
  EXPECT_EQ(ReadTimeLeft("0:07"), 7s);
  EXPECT_EQ(ReadTimeLeft("1:02:03"), 1h + 2min + 3s);
  EXPECT_EQ(ReadTimeLeft("364-23:59:58"), 365 * 24h - 2s);
  EXPECT_EQ(ReadTimeLeft("2-00:00:00"), 48h);
  for (const char* text : {"UNLIMITED\n", "NOT_SET", "INVALID", "", "1-", "1-2:3", "1:2:3:4",
                           "1:", "-5", "slurm_load_jobs error: Invalid job id specified"}) {
    EXPECT_EQ(ReadTimeLeft(text), std::nullopt) << text;
  }
}

TEST(TimeLeft, OfAHeterogeneousJobIsTheLeastOfItsGroups) {
  EXPECT_EQ(ReadTimeLeft("5:00\n4:59\nUNLIMITED\n"), 4min + 59s);
  EXPECT_EQ(ReadTimeLeft("UNLIMITED\nUNLIMITED\n"), std::nullopt);
}

TEST(KillWait, IsReadFromTheConfig) {
  EXPECT_EQ(ReadKillWait("KeepAliveTime           = SYSTEM_DEFAULT\nKillOnBadExit           = 0\n"
                         "KillWait                = 30 sec\nLaunchParameters        = (null)\n"),
            30s);
  EXPECT_EQ(ReadKillWait("KillWait = 5 sec"), 5s);
  EXPECT_EQ(ReadKillWait("NoKillWait = 5 sec\n"), std::nullopt);
  EXPECT_EQ(ReadKillWait("scontrol: error: no config\n"), std::nullopt);
  EXPECT_EQ(ReadKillWait("KillWait "), std::nullopt);
}

TEST(StopGrace, EndsBeforeSlurmKills) {
  const StopGrace::WallTime now{};
  const StopGrace outside = GraceOf(Environment(), true);
  EXPECT_EQ(outside.Of(SIGTERM), 300s);
  EXPECT_EQ(outside.Of(SIGUSR1), 300s);
  EXPECT_EQ(GraceOf(Environment(), false).Of(SIGTERM), 30s);

  const StopGrace inside = GraceOf(Environment(Environment::Variables{
                                       {"DDPRUN_KILL_WAIT", "20"}, {"SLURM_JOB_END_TIME", "100"}}),
                                   true);
  EXPECT_EQ(inside.usual(), 19s);
  EXPECT_EQ(inside.Of(SIGTERM, now), 19s);
  EXPECT_EQ(inside.Of(SIGUSR1, now), 100s);
  EXPECT_EQ(inside.Of(SIGUSR2, now + 90s), 19s);  // SIGTERM comes at the end and leaves KillWait
  EXPECT_EQ(inside.Of(SIGUSR1, now + 200s), 19s);

  // A job without a limit ends after a year, which is no time for a save.
  EXPECT_EQ(inside.Of(SIGUSR1, now - 365 * 24h), 300s);

  const StopGrace endless =
      GraceOf(Environment(Environment::Variables{{"DDPRUN_KILL_WAIT", "0"}}), true);
  EXPECT_EQ(endless.Of(SIGTERM), 1s);
  EXPECT_EQ(endless.Of(SIGUSR1), 300s);
  EXPECT_EQ(
      GraceOf(Environment(Environment::Variables{{"DDPRUN_KILL_WAIT", "90"}}), false).Of(SIGTERM),
      30s);
}

}  // namespace
}  // namespace ddprun::launcher
