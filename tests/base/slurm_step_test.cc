#include "base/slurm_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A step of 4 tasks on 3 nodes, seen from the second task of the first node.
Environment StepOf() {
  return Environment({{"SLURM_JOB_ID", "17"},
                      {"SLURM_STEP_ID", "2"},
                      {"SLURM_STEP_NODELIST", "a[1-3]"},
                      {"SLURM_JOB_NODELIST", "a[1-9]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2,1(x2)"},
                      {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_PROCID", "1"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_NODEID", "0"},
                      {"SLURMD_NODENAME", "a1"}});
}

TEST(SlurmStep, HasNodesAndTasksOfTheStep) {
  const auto step = ReadSlurmStep(StepOf(), 100);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->name, "17.2");
  EXPECT_THAT(step->nodes, ElementsAre("a1", "a2", "a3"));
  EXPECT_THAT(step->tasks, ElementsAre(2, 1, 1));
  EXPECT_EQ(step->task, 1);
  EXPECT_EQ(step->local_task, 1);
  EXPECT_EQ(step->tasks_here(), 2);
}

TEST(SlurmStep, FindsTheNodeByItsNameAndNotByItsNumber) {
  Environment env = StepOf();
  env.Set("SLURM_NODEID", "1");
  env.Set("SLURMD_NODENAME", "a3");
  env.Set("SLURM_LOCALID", "0");
  const auto step = ReadSlurmStep(env, 100);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->node, 2u);
  EXPECT_EQ(step->task, 1);
  EXPECT_EQ(step->place(), 3);
  EXPECT_EQ(step->tasks_here(), 1);
}

TEST(SlurmStep, RefusesVariablesThatContradictEachOther) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
      {"SLURM_STEP_TASKS_PER_NODE", "2(x"},
      {"SLURM_STEP_TASKS_PER_NODE", "9(x3)"},
      {"SLURM_PROCID", "4"},
      {"SLURM_LOCALID", "2"},
      {"SLURM_STEP_NUM_TASKS", "101"},
      {"SLURM_STEP_NODELIST", "a[1-"}};
  for (const auto& [name, value] : bad) {
    Environment env = StepOf();
    env.Set(name, value);
    const auto step = ReadSlurmStep(env, 100);
    ASSERT_FALSE(step.has_value()) << name << "=" << value;
    EXPECT_EQ(step.error().code, Code::kUsage);
    EXPECT_THAT(step.error().where + step.error().what, HasSubstr(name));
  }
}

// A batch script and the shell of salloc have variables of the job, and numbers of their own.
TEST(SlurmStep, IsOneThatSrunHasStarted) {
  EXPECT_TRUE(IsSlurmStep(StepOf()));
  EXPECT_FALSE(IsSlurmStep(Environment({{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "17"}})));
  EXPECT_FALSE(IsSlurmStep(Environment(Environment::Variables{{"SLURM_STEP_ID", "4294967290"}})));
  EXPECT_FALSE(IsSlurmStep(Environment(Environment::Variables{{"SLURM_STEP_ID", "batch"}})));
}

}  // namespace
}  // namespace ddprun
