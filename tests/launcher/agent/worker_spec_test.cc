#include "launcher/agent/worker_spec.h"

#include <gmock/gmock.h>

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;

// Node 1 of 2, the first with 3 workers, this one with 2.
Attempt SecondNode() {
  Attempt attempt;
  attempt.membership = {.round = 0,
                        .node_rank = 1,
                        .nnodes = 2,
                        .base_rank = 3,
                        .world_size = 5,
                        .role_base_rank = 3,
                        .role_world_size = 5,
                        .master_addr = "10.0.0.1",
                        .master_port = 29500};
  attempt.local_world_size = 2;
  attempt.job_id = "abc";
  attempt.run_id = "none";
  attempt.error_folder = "/tmp/job";
  attempt.node_memory_fd = 7;
  attempt.flight_recorder_fd = 8;
  attempt.usable_cores = 9;
  return attempt;
}

Target Program() {
  return {.name = "prog", .program = "/bin/prog", .argv = {"prog", "x"}};
}

TEST(WorkerSpec, HoldsTorchrunsWholeEnvironment) {
  const WorkerSpec spec = MakeWorkerSpec(Program(), SecondNode(), 1,
                                         Environment(Environment::Variables{{"KEPT", "1"}}));
  EXPECT_EQ(spec.rank, 4);
  EXPECT_EQ(spec.local_rank, 1);
  EXPECT_THAT(
      spec.env.Entries(),
      ElementsAre("DDPRUN_FLIGHT_RECORDER_FD=8", "DDPRUN_JOB_ID=abc",
                  "DDPRUN_NODE_MEMORY_FD=7", "GROUP_RANK=1",
                  "GROUP_WORLD_SIZE=2", "KEPT=1", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
                  "MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500", "OMP_NUM_THREADS=4",
                  "PYTHONFAULTHANDLER=1", "RANK=4",
                  "ROLE_NAME=default", "ROLE_RANK=4", "ROLE_WORLD_SIZE=5",
                  "TORCHELASTIC_ERROR_FILE=/tmp/job/1/error.json", "TORCHELASTIC_MAX_RESTARTS=0",
                  "TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_RUN_ID=none",
                  "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT",
                  "TORCHELASTIC_USE_AGENT_STORE=True", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
                  "WORLD_SIZE=5"));
}

TEST(WorkerSpec, KeepsWhatTheUserHasSet) {
  const Environment env(Environment::Variables{{"OMP_NUM_THREADS", "3"},
                                               {"PYTHONFAULTHANDLER", ""},
                                               {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"}});
  EXPECT_THAT(MakeWorkerSpec(Program(), SecondNode(), 0, env).env.Entries(),
              IsSupersetOf({"OMP_NUM_THREADS=3", "PYTHONFAULTHANDLER=",
                            "TORCH_NCCL_ASYNC_ERROR_HANDLING=2"}));
}

TEST(WorkerSpec, OverridesTheRanksOfAnOuterJob) {
  const Environment env(Environment::Variables{{"RANK", "99"}, {"DDPRUN_JOB_ID", "outer"}});
  const WorkerSpec spec = MakeWorkerSpec(Program(), SecondNode(), 0, env);
  EXPECT_EQ(spec.env.Get("RANK"), "3");
  EXPECT_EQ(spec.env.Get("DDPRUN_JOB_ID"), "abc");
}

TEST(WorkerSpec, GivesEachWorkerAtLeastOneThread) {
  Attempt attempt = SecondNode();
  attempt.usable_cores = 1;
  EXPECT_EQ(MakeWorkerSpec(Program(), attempt, 0, {}).env.Get("OMP_NUM_THREADS"), "1");
}

TEST(WorkerSpec, PutsTheLocalRankIntoArgumentsButNotIntoTheProgramsName) {
  Target target = Program();
  target.argv = {"${local_rank}", "--local_rank=${local_rank}"};
  EXPECT_THAT(MakeWorkerSpec(target, SecondNode(), 1, {}).argv,
              ElementsAre("${local_rank}", "--local_rank=1"));
}

TEST(WorkerSpec, SaysRoleRestartsAndSignals) {
  Attempt attempt = SecondNode();
  attempt.membership.restart_count = 2;
  attempt.max_restarts = 3;
  attempt.role = "reader";
  attempt.signals_to_handle = "SIGUSR2";
  EXPECT_THAT(
      MakeWorkerSpec(Program(), attempt, 0, {}).env.Entries(),
      IsSupersetOf({"ROLE_NAME=reader", "TORCHELASTIC_RESTART_COUNT=2",
                    "TORCHELASTIC_MAX_RESTARTS=3", "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGUSR2"}));
}

TEST(WorkerSpec, HasNoErrorFileWithoutAFolder) {
  Attempt attempt = SecondNode();
  attempt.error_folder = "";
  EXPECT_EQ(MakeWorkerSpec(Program(), attempt, 0, {}).env.Get("TORCHELASTIC_ERROR_FILE"), "");
}

TEST(WorkerSpec, ShowsEachWorkerItsOwnGpuAsTheFirst) {
  Attempt attempt = SecondNode();
  attempt.virtual_local_rank = true;
  const Environment env(Environment::Variables{{"CUDA_VISIBLE_DEVICES", "4, GPU-ab"}});
  const WorkerSpec spec = MakeWorkerSpec(Program(), attempt, 1, env);
  EXPECT_THAT(spec.env.Entries(),
              IsSupersetOf({"LOCAL_RANK=0", "RANK=4", "CUDA_VISIBLE_DEVICES=GPU-ab"}));
  EXPECT_EQ(MakeWorkerSpec(Program(), attempt, 1, {}).env.Get("CUDA_VISIBLE_DEVICES"), "1");
}

TEST(WorkerSpec, NeedsAGpuForEachVirtualLocalRank) {
  const Environment env(Environment::Variables{{"CUDA_VISIBLE_DEVICES", "4,5"}});
  EXPECT_TRUE(CheckVirtualLocalRank(env, 2).ok());
  EXPECT_TRUE(CheckVirtualLocalRank({}, 8).ok());
  const Status status = CheckVirtualLocalRank(env, 3);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().what, testing::HasSubstr("names 2 GPUs for 3 workers"));
}

TEST(WorkerSpec, CarriesTheCpusOfItsLocalRank) {
  Attempt attempt = SecondNode();
  attempt.cpus = {{0, 1}, {2, 3, 6}};
  const WorkerSpec spec = MakeWorkerSpec(Program(), attempt, 1, {});
  EXPECT_THAT(spec.cpus, ElementsAre(2, 3, 6));
  EXPECT_EQ(spec.env.Get("DDPRUN_CPUS"), "2-3,6");
  EXPECT_FALSE(MakeWorkerSpec(Program(), SecondNode(), 1, {}).env.Get("DDPRUN_CPUS"));
}

TEST(SubstituteLocalRank, ReplacesBothFormsAndKeepsOtherDollars) {
  EXPECT_EQ(SubstituteLocalRank("a${local_rank}b$local_rank.c", 12), "a12b12.c");
  EXPECT_EQ(SubstituteLocalRank("$local_ranks $HOME ${HOME} $", 1), "$local_ranks $HOME ${HOME} $");
  EXPECT_EQ(SubstituteLocalRank("$${local_rank} $$local_rank", 1), "${local_rank} $local_rank");
  EXPECT_EQ(SubstituteLocalRank("kill $$", 1), "kill $$");
  EXPECT_EQ(SubstituteLocalRank("", 1), "");
}

}  // namespace
}  // namespace ddprun::launcher
