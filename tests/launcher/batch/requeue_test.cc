#include "launcher/batch/requeue.h"

#include <gmock/gmock.h>

#include <fstream>

#include "launcher/batch/gained_steps.h"
#include "launcher/batch/slurm_command.h"

namespace ddprun::launcher {
namespace {

using testing::HasSubstr;

class Requeue : public testing::Test {
 protected:
  Requeue() { facts_.outcome.exit_code = 75; }
  bool Requeues() { return DecideRequeue(facts_).requeues; }
  std::string WhyNot() {
    EXPECT_FALSE(Requeues());
    return DecideRequeue(facts_).why_not;
  }
  RequeueFacts facts_{.limit = 3, .restarts = 2, .gained_steps = 1, .job_state = "RUNNING"};
};

TEST_F(Requeue, FollowsACheckpoint) {
  EXPECT_TRUE(Requeues());
  facts_.gained_steps.reset();  // a Python worker does not say it
  EXPECT_TRUE(Requeues());
  facts_.job_state = "";  // scontrol requeue says what is wrong
  EXPECT_TRUE(Requeues());
}

TEST_F(Requeue, FollowsALostNode) {
  facts_.outcome = {.exit_code = 1, .lost_node = true};
  EXPECT_TRUE(Requeues());
}

// On several nodes the launcher's code is that of the signal, and the worker's code is known here.
TEST_F(Requeue, FollowsTheCodeOfAWorkerThatASignalStopped) {
  facts_.outcome = {.exit_code = 143, .worker_code = 75};
  EXPECT_TRUE(Requeues());
  facts_.outcome.worker_code = 1;
  EXPECT_EQ(WhyNot(), "");
}

TEST_F(Requeue, NeverFollowsSuccessAnErrorOrCtrlC) {
  for (const int code : {0, 1, 2, 3, 77, 130, 137}) {
    facts_.outcome.exit_code = code;
    EXPECT_EQ(WhyNot(), "") << code;
  }
  facts_.outcome = {.exit_code = 0, .worker_code = 75};
  EXPECT_EQ(WhyNot(), "");
  facts_.outcome = {.exit_code = 130, .worker_code = 75, .interrupted = true};
  EXPECT_EQ(WhyNot(), "");
}

TEST_F(Requeue, NeverFollowsCode76) {
  facts_.outcome = {.exit_code = 143, .worker_code = 76};
  EXPECT_THAT(WhyNot(), HasSubstr("76"));
}

TEST_F(Requeue, NeverFollowsScancel) {
  for (const char* state : {"COMPLETING", "CANCELLED", "PENDING"}) {
    facts_.job_state = state;
    EXPECT_THAT(WhyNot(), HasSubstr(state));
  }
}

TEST_F(Requeue, FollowsTheTimeLimit) {
  facts_.job_state = "COMPLETING";
  facts_.job_reason = "TimeLimit";
  EXPECT_TRUE(Requeues());
}

TEST_F(Requeue, EndsAtItsLimitAndWithoutProgress) {
  facts_.restarts = 3;
  EXPECT_THAT(WhyNot(), HasSubstr("--requeue allows 3"));
  facts_.restarts = 0;
  facts_.gained_steps = 0;
  EXPECT_THAT(WhyNot(), HasSubstr("saved no step"));
}

TEST(JobField, IsAWordOfScontrol) {
  const char* const text = "JobId=2 JobName=b.sh JobState=RUNNING Reason=TimeLimit";
  EXPECT_EQ(ReadJobField("JobState", text), "RUNNING");
  EXPECT_EQ(ReadJobField("Reason", text), "TimeLimit");
  EXPECT_EQ(ReadJobField("State", text), "");
  EXPECT_EQ(ReadJobField("JobId", "JobId=7 JobName=a"), "7");
  const std::string paths = "StdErr=/my work/a b.err StdIn=/dev/null StdOut=/my work/a b.out \n";
  EXPECT_EQ(ReadJobField("StdErr", paths), "/my work/a b.err");
  EXPECT_EQ(ReadJobField("StdOut", paths), "/my work/a b.out");
  EXPECT_EQ(ReadJobField("Power", "Power= Nice=0"), "");
  EXPECT_EQ(ReadJobField("JobState", "slurm_load_jobs error: Invalid job id specified"), "");
}

TEST(SlurmJobName, NamesTheElementOfAnArray) {
  EXPECT_EQ(SlurmJobName(Environment(Environment::Variables{{"SLURM_JOB_ID", "7"}})), "7");
  EXPECT_EQ(SlurmJobName(Environment(Environment::Variables{
                {"SLURM_JOB_ID", "9"}, {"SLURM_ARRAY_JOB_ID", "7"}, {"SLURM_ARRAY_TASK_ID", "3"}})),
            "7_3");
}

TEST(GainedSteps, AreTheLastNumberThatWasWritten) {
  const auto gained = GainedSteps::Create();
  ASSERT_TRUE(gained);
  EXPECT_EQ(gained->Read(), std::nullopt);
  for (const int64_t steps : {0, 120, 7}) {
    std::ofstream(gained->path()) << steps << "\n";
    EXPECT_EQ(gained->Read(), steps);
  }
}

}  // namespace
}  // namespace ddprun::launcher
