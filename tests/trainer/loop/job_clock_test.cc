#include "trainer/worker/job_clock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "base/stop_signals.h"
#include "trainer/worker/job_watch.h"

namespace ddprun::trainer {
namespace {

Environment JobThatEndsAt(const char* end) {
  return Environment(Environment::Variables{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_END_TIME", end}});
}

TEST(JobClock, KnowsNoEndOutsideOfSlurm) {
  for (const Environment& environment :
       {Environment(), JobThatEndsAt(""), JobThatEndsAt("tomorrow"),
        Environment(Environment::Variables{{"SLURM_JOB_END_TIME", "1000"}})}) {
    const JobClock clock(environment, 0);
    EXPECT_FALSE(clock.Left(0));
    EXPECT_FALSE(clock.IsNear(1e9));
  }
}

TEST(JobClock, KnowsNoEndOfAJobWithoutLimit) {
  EXPECT_FALSE(JobClock(JobThatEndsAt("31536000"), 0).Left(0));
  EXPECT_TRUE(JobClock(JobThatEndsAt("31000000"), 0).Left(0));
}

TEST(JobClock, StopsAMinuteBeforeTheEnd) {
  const JobClock clock(JobThatEndsAt("10000"), 1000);
  EXPECT_EQ(clock.Left(9000), 1000);
  EXPECT_FALSE(clock.IsNear(9939));
  EXPECT_TRUE(clock.IsNear(9940));
  EXPECT_TRUE(clock.IsNear(11000));
}

TEST(JobClock, LeavesTimeForTwoStepsAndTwoSaves) {
  JobClock clock(JobThatEndsAt("10000"), 1000);
  clock.NoteStep(50);
  clock.NoteStep(20);  // the longest counts
  EXPECT_EQ(clock.Reserve(), 100);
  clock.NoteSave(200);
  clock.NoteSave(30);  // the last counts
  EXPECT_EQ(clock.Reserve(), 160);
}

TEST(JobClock, DoesNotEndAShortJobAtItsStart) {
  EXPECT_EQ(JobClock(JobThatEndsAt("1060"), 1000).Reserve(), 6);
  EXPECT_EQ(JobClock(JobThatEndsAt("1000"), 2000).Reserve(), 0);
}

struct Notes : Observer {
  void OnNote(std::string_view note) override { text += note; }
  std::string text;
};

TEST(JobWatch, WarnsOfASignalThatLeavesLessTimeThanTheLastSaveTook) {
  const Environment environment(
      Environment::Variables{{"DDPRUN_JOB_ID", "1"}, {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "9"}});
  const StopRequest stop(RunConfig(), environment);
  Notes notes;
  JobWatch watch(stop, notes);
  stop.job().NoteSave(100);
  watch.OnSave(3, {});
  EXPECT_EQ(notes.text, "");  // nothing ends the run
  NoteStopSignals(environment);
  ::kill(::getpid(), SIGTERM);
  while (NotedStopSignal() == 0) std::this_thread::yield();
  stop.job().NoteSave(0.01);
  watch.OnSave(4, {});
  EXPECT_EQ(notes.text, "");
  stop.job().NoteSave(100);
  watch.OnSave(5, {});
  EXPECT_EQ(notes.text.find("warning: the signal came late: the save of step 5 has 0:0"), 0)
      << notes.text;
}

}  // namespace
}  // namespace ddprun::trainer
