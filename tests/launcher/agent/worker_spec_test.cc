#include "launcher/agent/worker_spec.h"

#include <gmock/gmock.h>

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::StartsWith;

AgentPlan SomePlan(Environment::Variables variables = {}) {
  AgentPlan plan;
  plan.target = {.name = "prog", .program = "/bin/prog", .argv = {"prog", "x"}};
  plan.env = Environment(std::move(variables));
  plan.options.rdzv.local_world_size = 2;
  plan.job_id = "abc";
  return plan;
}

// Node 1 of 2, the first with 3 workers, this one with 2.
Attempt SecondNode(const AgentPlan& plan) {
  return {.plan = plan,
          .membership = {.round = 0,
                         .node_rank = 1,
                         .nnodes = 2,
                         .base_rank = 3,
                         .world_size = 5,
                         .role_base_rank = 3,
                         .role_world_size = 5,
                         .master_addr = "10.0.0.1",
                         .master_port = 29500},
          .error_folder = "/tmp/job",
          .node_memory_fd = 7,
          .flight_recorder_fd = 8,
          .usable_cores = 9};
}

WorkerSpec Spec(const AgentPlan& plan, int local_rank) {
  return MakeWorkerSpec(SecondNode(plan), local_rank);
}

TEST(WorkerSpec, HoldsTorchrunsWholeEnvironment) {
  const WorkerSpec spec = Spec(SomePlan({{"KEPT", "1"}}), 1);
  EXPECT_EQ(spec.rank, 4);
  EXPECT_EQ(spec.local_rank, 1);
  EXPECT_THAT(
      spec.env.Entries(),
      ElementsAre("DDPRUN_FLIGHT_RECORDER_FD=8", "DDPRUN_JOB_BEGAN_NS=0", "DDPRUN_JOB_ID=abc",
                  "DDPRUN_NODE_MEMORY_FD=7", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "KEPT=1",
                  "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500",
                  "OMP_NUM_THREADS=4", "PYTHONFAULTHANDLER=1", "RANK=4", "ROLE_NAME=default",
                  "ROLE_RANK=4", "ROLE_WORLD_SIZE=5",
                  "TORCHELASTIC_ERROR_FILE=/tmp/job/1/error.json", "TORCHELASTIC_MAX_RESTARTS=0",
                  "TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_RUN_ID=none",
                  "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT",
                  "TORCHELASTIC_USE_AGENT_STORE=True", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
                  "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/tmp/job/nccl_trace_rank_", "WORLD_SIZE=5"));
}

TEST(WorkerSpec, KeepsWhatTheUserHasSet) {
  const AgentPlan plan = SomePlan({{"OMP_NUM_THREADS", "3"},
                                   {"PYTHONFAULTHANDLER", ""},
                                   {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"}});
  EXPECT_THAT(Spec(plan, 0).env.Entries(), IsSupersetOf({"OMP_NUM_THREADS=3", "PYTHONFAULTHANDLER=",
                                                         "TORCH_NCCL_ASYNC_ERROR_HANDLING=2"}));
}

TEST(WorkerSpec, NamesFilesForTheDumpsOfNcclUnlessTheUserHasSetThem) {
  const char* const kDumps = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE";
  const char* const kPipes = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE";
  AgentPlan plan = SomePlan();
  plan.job_folder = "/tmp/private";
  plan.options.hang_timeout = std::chrono::seconds(9);
  EXPECT_EQ(Spec(plan, 0).env.Get(kDumps), "/tmp/job/nccl_trace_rank_");
  EXPECT_EQ(Spec(plan, 0).env.Get(kPipes), "/tmp/private/nccl_rank_");
  plan.env.Set(kPipes, "mine");
  EXPECT_EQ(Spec(plan, 0).env.Get(kPipes), "mine");
  Attempt no_folder = SecondNode(plan);
  no_folder.error_folder = "";
  EXPECT_EQ(MakeWorkerSpec(no_folder, 0).env.Get(kDumps), std::nullopt);
  for (const std::string name : {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE"}) {
    AgentPlan own = SomePlan({{name, "mine"}});
    own.options.hang_timeout = std::chrono::seconds(9);
    const Environment env = Spec(own, 0).env;
    EXPECT_EQ(env.Get(name), "mine");
    EXPECT_EQ(env.Get(kPipes), std::nullopt);
    EXPECT_EQ(env.Get(kDumps).value_or("mine"), "mine");
  }
  plan.target.is_trainer_config = true;
  EXPECT_EQ(Spec(plan, 0).env.Get(kDumps), std::nullopt);
}

TEST(WorkerSpec, TellsTheTrainerOfItsGraceAndItsRound) {
  AgentPlan plan = SomePlan();
  plan.target.is_trainer_config = true;
  Attempt attempt = SecondNode(plan);
  attempt.membership.round = 3;
  EXPECT_THAT(MakeWorkerSpec(attempt, 0).env.Entries(),
              IsSupersetOf({"DDPRUN_ROUND=3", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=300.000000"}));
  plan.options.shutdown_timeout = std::chrono::milliseconds(2500);
  EXPECT_EQ(MakeWorkerSpec(attempt, 0).env.Get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT"), "2.500000");
}

TEST(WorkerSpec, TellsTheTrainerTheFlagsByWhichItsNodeMeetsOthers) {
  AgentPlan plan = SomePlan();
  plan.target.is_trainer_config = true;
  const auto flags = [&plan] { return Spec(plan, 0).env.Get("DDPRUN_NODE_FLAGS"); };
  EXPECT_EQ(flags(), "");
  plan.options.rdzv.rules = {.min_nodes = 2, .max_nodes = 2};
  plan.options.rdzv.node_rank = 1;
  plan.options.rdzv.endpoint = {"10.0.0.1", 29500};
  EXPECT_EQ(flags(), "--nnodes=2 --node_rank=1 --master_addr=10.0.0.1 --master_port=29500 ");
  plan.options.backend = rendezvous::FindBackend("c10d");
  plan.options.rdzv.node_rank.reset();
  plan.options.rdzv.run_id = "my job";
  plan.options.rdzv_conf = {{"join_timeout", "20"}};
  EXPECT_EQ(flags(),
            "--nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=10.0.0.1:29500 --rdzv_id='my job' "
            "--rdzv_conf=join_timeout=20 ");
  plan.options.rdzv.rules.min_nodes = 1;
  EXPECT_THAT(*flags(), StartsWith("--nnodes=1:2 --rdzv_backend=c10d "));
  plan.options.in_cluster = true;  // a new step has another endpoint
  plan.options.given = {"rdzv_conf"};
  EXPECT_EQ(flags(), "--rdzv_conf=join_timeout=20 ");
  plan.options.host_share = HostShare{};
  EXPECT_EQ(flags(), "");
}

TEST(WorkerSpec, OverridesTheRanksOfAnOuterJob) {
  const WorkerSpec spec = Spec(SomePlan({{"RANK", "99"}, {"DDPRUN_JOB_ID", "outer"}}), 0);
  EXPECT_EQ(spec.env.Get("RANK"), "3");
  EXPECT_EQ(spec.env.Get("DDPRUN_JOB_ID"), "abc");
}

TEST(WorkerSpec, GivesEachWorkerAtLeastOneThread) {
  const AgentPlan plan = SomePlan();
  Attempt attempt = SecondNode(plan);
  attempt.usable_cores = 1;
  EXPECT_EQ(MakeWorkerSpec(attempt, 0).env.Get("OMP_NUM_THREADS"), "1");
}

TEST(WorkerSpec, PutsTheLocalRankIntoArgumentsButNotIntoTheProgramsName) {
  AgentPlan plan = SomePlan();
  plan.target.argv = {"${local_rank}", "--local_rank=${local_rank}"};
  EXPECT_THAT(Spec(plan, 1).argv, ElementsAre("${local_rank}", "--local_rank=1"));
}

TEST(WorkerSpec, SaysRoleRestartsAndSignals) {
  AgentPlan plan = SomePlan();
  plan.options.rdzv.rules.max_restarts = 3;
  plan.options.rdzv.role = "reader";
  plan.options.signals_text = "SIGUSR2";
  Attempt attempt = SecondNode(plan);
  attempt.membership.restart_count = 2;
  EXPECT_THAT(
      MakeWorkerSpec(attempt, 0).env.Entries(),
      IsSupersetOf({"ROLE_NAME=reader", "TORCHELASTIC_RESTART_COUNT=2",
                    "TORCHELASTIC_MAX_RESTARTS=3", "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGUSR2"}));
}

TEST(WorkerSpec, HasNoErrorFileWithoutAFolder) {
  const AgentPlan plan = SomePlan();
  Attempt attempt = SecondNode(plan);
  attempt.error_folder = "";
  EXPECT_EQ(MakeWorkerSpec(attempt, 0).env.Get("TORCHELASTIC_ERROR_FILE"), "");
}

TEST(WorkerSpec, ShowsEachWorkerItsOwnGpuAsTheFirst) {
  AgentPlan plan = SomePlan({{"CUDA_VISIBLE_DEVICES", "4, GPU-ab"}});
  plan.options.virtual_local_rank = true;
  EXPECT_THAT(Spec(plan, 1).env.Entries(),
              IsSupersetOf({"LOCAL_RANK=0", "RANK=4", "CUDA_VISIBLE_DEVICES=GPU-ab"}));
  plan.env = {};
  EXPECT_EQ(Spec(plan, 1).env.Get("CUDA_VISIBLE_DEVICES"), "1");
}

TEST(WorkerSpec, CarriesTheCpusOfItsLocalRank) {
  AgentPlan plan = SomePlan();
  EXPECT_FALSE(Spec(plan, 1).env.Get("DDPRUN_CPUS"));
  plan.cpus = {{0, 1}, {2, 3, 6}};
  const WorkerSpec spec = Spec(plan, 1);
  EXPECT_THAT(spec.cpus, ElementsAre(2, 3, 6));
  EXPECT_EQ(spec.env.Get("DDPRUN_CPUS"), "2-3,6");
}

}  // namespace
}  // namespace ddprun::launcher
