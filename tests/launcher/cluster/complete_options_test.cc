#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include <ddprun/error.h>
#include "launcher/cluster/cluster.h"

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The second of two nodes with a task each.
Environment SecondNode() {
  return Environment({{"SLURM_JOB_ID", "17"},
                      {"SLURM_CLUSTER_NAME", "c"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_STEP_NODELIST", "a[1-2]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                      {"SLURM_STEP_NUM_TASKS", "2"},
                      {"SLURM_PROCID", "1"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURMD_NODENAME", "a2"}});
}

Result<Options> Complete(std::vector<std::string> flags, const Environment& env = SecondNode()) {
  flags.emplace_back("train.py");
  DDPRUN_ASSIGN(auto parsed, ParseOptions(flags, env, {}, CompleteOptions));
  return std::get<Options>(std::move(parsed));
}

Options Completed(const std::vector<std::string>& flags, const Environment& env = SecondNode()) {
  auto options = Complete(flags, env);
  EXPECT_TRUE(options.has_value()) << Render(options.error());
  return options.has_value() ? *options : Options();
}

TEST(CompleteOptions, TakesAllFromTheStep) {
  const Options options = Completed({});
  EXPECT_EQ(options.backend->name, "c10d");
  EXPECT_EQ(options.rdzv.rules.min_nodes, 2);
  EXPECT_EQ(options.rdzv.rules.max_nodes, 2);
  EXPECT_EQ(options.rdzv.node_rank, 1);
  EXPECT_EQ(options.rdzv.endpoint.host, "a1");
  EXPECT_EQ(options.rdzv.is_host, false);
  EXPECT_EQ(options.rdzv.run_id, "slurm.c.17.0.0");
  EXPECT_EQ(options.rdzv.other_ports.size(), 8u);
  EXPECT_FALSE(options.host_share.has_value());
  Environment first = SecondNode();
  first.Set("SLURM_PROCID", "0");
  first.Set("SLURMD_NODENAME", "a1");
  EXPECT_EQ(Completed({}, first).rdzv.endpoint, options.rdzv.endpoint);
  EXPECT_EQ(Completed({}, first).rdzv.is_host, true);
}

TEST(CompleteOptions, ChangesNothingThatTheUserGives) {
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--standalone"},
           {"--nnodes=1"},
           {"--nnodes=3", "--rdzv_backend=c10d", "--rdzv_endpoint=b:1"},
           {"--nnodes=3", "--node_rank=2", "--master_addr=b", "--master_port=1"}}) {
    const Options options = Completed(flags);
    const Options outside = Completed(flags, Environment());
    EXPECT_EQ(options.rdzv.endpoint, outside.rdzv.endpoint) << flags.front();
    EXPECT_EQ(options.rdzv.node_rank, outside.rdzv.node_rank);
    EXPECT_EQ(options.rdzv.rules.max_nodes, outside.rdzv.rules.max_nodes);
    EXPECT_EQ(options.backend, outside.backend);
  }
  Environment env = SecondNode();
  env.Set("PET_RDZV_ID", "mine");
  EXPECT_EQ(Completed({"--node_rank=0"}, env).rdzv.run_id, "mine");
  EXPECT_EQ(Completed({"--node_rank=0"}).rdzv.is_host, true);
}

TEST(CompleteOptions, CompletesWhatTheUserGivesInPart) {
  const Options endpoint = Completed({"--rdzv_backend=c10d", "--rdzv_endpoint=b:1"});
  EXPECT_EQ(endpoint.rdzv.rules.max_nodes, 2);
  EXPECT_EQ(endpoint.rdzv.endpoint, (rendezvous::HostPort{"b", 1}));
  EXPECT_FALSE(endpoint.rdzv.is_host.has_value());
  const Options backend = Completed({"--rdzv_backend=static", "--master_port=77"});
  EXPECT_EQ(backend.backend->name, "static");
  EXPECT_EQ(backend.rdzv.endpoint, (rendezvous::HostPort{"a1", 77}));
  EXPECT_EQ(backend.rdzv.node_rank, 1);
  const Options range = Completed({"--nnodes=1:2"});
  EXPECT_EQ(range.rdzv.rules.min_nodes, 1);
  EXPECT_EQ(range.rdzv.endpoint.host, "a1");
  Environment env = SecondNode();
  env.Set("MASTER_ADDR", "10.0.0.1");
  EXPECT_EQ(Completed({}, env).rdzv.endpoint.host, "10.0.0.1");
}

TEST(CompleteOptions, WarnsOfCoresThatSrunHasNotTakenOver) {
  Environment env = SecondNode();
  EXPECT_THAT(Completed({}, env).notes, testing::IsEmpty());
  env.Set("SLURM_CPUS_PER_TASK", "100000");
  EXPECT_THAT(Completed({}, env).notes,
              testing::ElementsAre(HasSubstr("asked for 100000 cores a task and this task has")));
  env.Set("SRUN_CPUS_PER_TASK", "100000");
  EXPECT_THAT(Completed({}, env).notes, testing::IsEmpty());
}

// The agent of the first of three hosts of --hostfile.
Environment FirstHost() {
  return Environment(Environment::Variables{{"DDPRUN_HOST_PLACE", "0 3 a hosts.1"}});
}

TEST(CompleteOptions, OfAHostfileLetTheUserSayWhereTheyMeet) {
  const std::string endpoint = "--rdzv_endpoint=x:1,y:1,z:1";
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {endpoint}, {endpoint, "--nnodes=2:3"}, {endpoint, "--nnodes=2", "--spares=1"}}) {
    const Options options = Completed(flags, FirstHost());
    EXPECT_TRUE(options.in_cluster);
    EXPECT_EQ(options.backend->name, "c10d");
    EXPECT_EQ(options.rdzv.hosts.size(), 3u);
    EXPECT_EQ(options.rdzv.run_id, "hosts.1");
    EXPECT_FALSE(options.rdzv.is_host.has_value());
  }
  EXPECT_EQ(Completed({"--rdzv_endpoint=x:1", "--spares=1"}, FirstHost()).rdzv.rules.max_nodes, 2);
  // Others may join there. At a place of their own nobody does.
  EXPECT_EQ(Completed({"--rdzv_endpoint=x:1", "--nnodes=2:9"}, FirstHost()).rdzv.rules.max_nodes,
            9);
  EXPECT_EQ(Completed({"--nnodes=2:9"}, FirstHost()).rdzv.rules.max_nodes, 3);
  for (const char* flag : {"--master_addr=x", "--rdzv_backend=static"}) {
    EXPECT_EQ(Completed({flag, "--nnodes=3", "--rdzv_endpoint=x:1"}, FirstHost()).backend->name,
              "static");
  }
}

TEST(CompleteOptions, OfAHostfileGiveNoHintThatTheyRefuse) {
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--nnodes=4"}, {"--nnodes=4", "--rdzv_endpoint=x:1"}}) {
    const auto refused = Complete(flags, FirstHost());
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().hint, "Leave --nnodes out, or name as many hosts in the file.");
  }
}

Environment OfOpenMpi(int rank, int local_rank) {
  return Environment({{"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(local_rank)},
                      {"PMIX_NAMESPACE", "77"}});
}

TEST(CompleteOptions, NeedsAHostFromMpirunOnSeveralHosts) {
  const auto without = Complete({}, OfOpenMpi(3, 1));
  ASSERT_FALSE(without.has_value());
  EXPECT_EQ(without.error().title, "NO PLACE TO MEET");
  Environment env = OfOpenMpi(3, 1);
  env.Set("MASTER_ADDR", "b");
  const Options options = Completed({}, env);
  EXPECT_EQ(options.rdzv.endpoint.host, "b");
  EXPECT_EQ(options.rdzv.node_rank, 3);
  EXPECT_EQ(options.rdzv.rules.max_nodes, 4);
  ASSERT_TRUE(options.host_share.has_value());
  EXPECT_EQ(options.host_share->host, 2);
  EXPECT_EQ(options.host_share->hosts, 2);
}

TEST(CompleteOptions, RefusesProcessesThatMpirunHasDealtInTurn) {
  Environment env = OfOpenMpi(3, 0);
  env.Set("MASTER_ADDR", "b");
  EXPECT_FALSE(Complete({}, env).has_value());
}

TEST(CompleteOptions, MakesOneJobOfAsManyPodsAsNnodesSays) {
  const Environment env({{"JOB_COMPLETION_INDEX", "12"}, {"HOSTNAME", "my-job-12.svc"}});
  const Options options = Completed({"--nnodes=16"}, env);
  EXPECT_EQ(options.rdzv.node_rank, 12);
  EXPECT_EQ(options.rdzv.endpoint.host, "my-job-0.svc");
  EXPECT_EQ(options.rdzv.is_host, false);
  EXPECT_EQ(Completed({}, env).rdzv.rules.max_nodes, 1);
  const Environment nameless({{"JOB_COMPLETION_INDEX", "1"}, {"HOSTNAME", "pod"}});
  EXPECT_FALSE(Complete({"--nnodes=2"}, nameless).has_value());
}

TEST(CompleteOptions, StartsAWorkerForEachGpuOfTheStep) {
  Environment env = SecondNode();
  env.Set("SLURM_GPUS_ON_NODE", "2");
  EXPECT_EQ(Completed({}, env).nproc_per_node, "gpu");
  EXPECT_EQ(Completed({"--nproc_per_node=2"}, env).nproc_per_node, "2");
  EXPECT_THAT(Completed({"--nproc_per_node=2"}, env).notes, testing::IsEmpty());
  EXPECT_THAT(Completed({"--nproc_per_node=4"}, env).notes,
              testing::ElementsAre("4 workers and 2 GPUs on this node; for one each: "
                                   "#SBATCH --gpus-per-node=4"));
  // A step of one node, too.
  env.Set("SLURM_STEP_NODELIST", "a2");
  env.Set("SLURM_STEP_TASKS_PER_NODE", "1");
  env.Set("SLURM_STEP_NUM_TASKS", "1");
  env.Set("SLURM_PROCID", "0");
  EXPECT_EQ(Completed({}, env).nproc_per_node, "gpu");
  EXPECT_EQ(Completed({}, env).rdzv.rules.max_nodes, 1);
}

TEST(CompleteOptions, WaitsForNoNodeThatTheStepDoesNotHave) {
  const Options two = Completed({"--nnodes=1:4"});
  EXPECT_EQ(two.rdzv.rules.min_nodes, 1);
  EXPECT_EQ(two.rdzv.rules.max_nodes, 2);
  Environment env = SecondNode();
  env.Set("SLURM_STEP_NODELIST", "a2");
  env.Set("SLURM_STEP_TASKS_PER_NODE", "1");
  env.Set("SLURM_STEP_NUM_TASKS", "1");
  env.Set("SLURM_PROCID", "0");
  const Options one = Completed({"--nnodes=1:2"}, env);
  EXPECT_EQ(one.rdzv.rules.max_nodes, 1);
  EXPECT_THAT(one.notes, ElementsAre(HasSubstr("has 1 agent and gets no other")));
  EXPECT_FALSE(Complete({"--nnodes=2"}, env).has_value());
  EXPECT_FALSE(Complete({"--nnodes=2:3"}, env).has_value());
}

TEST(CompleteOptions, RefusesFlagsThatDoNotFit) {
  const auto nodes = Complete({"--nnodes=3"});
  ASSERT_FALSE(nodes.has_value());
  EXPECT_THAT(nodes.error().what, HasSubstr("2 agents"));
  EXPECT_FALSE(Complete({"--nnodes=3:4"}).has_value());
  Environment env = SecondNode();
  env.Set("SLURM_STEP_NUM_TASKS", "4");
  env.Set("SLURM_STEP_TASKS_PER_NODE", "2(x2)");
  env.Set("SLURM_PROCID", "3");
  env.Set("SLURM_LOCALID", "1");
  EXPECT_FALSE(Complete({"--nproc_per_node=4"}, env).has_value());
  const auto elastic = Complete({"--nnodes=2:4"}, env);
  ASSERT_FALSE(elastic.has_value());
  EXPECT_THAT(elastic.error().hint, HasSubstr("srun --ntasks-per-node=1 ddprun --nnodes"));
  const Options share = Completed({"--nproc_per_node=2"}, env);
  EXPECT_EQ(share.nproc_per_node, "1");
  ASSERT_TRUE(share.host_share.has_value());
  EXPECT_EQ(share.host_share->first_local_rank, 1);
  EXPECT_EQ(share.host_share->workers, 2);
  EXPECT_EQ(share.host_share->host, 1);
}

TEST(CompleteOptions, CountsFromZeroWhereATaskSeesOneGpu) {
  Environment env = SecondNode();
  env.Set("SLURM_STEP_NUM_TASKS", "4");
  env.Set("SLURM_STEP_TASKS_PER_NODE", "2(x2)");
  env.Set("SLURM_PROCID", "3");
  env.Set("SLURM_LOCALID", "1");
  env.Set("SLURM_GPUS_ON_NODE", "2");
  env.Set("CUDA_VISIBLE_DEVICES", "1");
  EXPECT_EQ(Completed({}, env).host_share->first_local_rank, 0);
  EXPECT_EQ(Completed({}, env).host_share->hosts, 4);
  // With srun --gpu-bind=none each task sees all GPUs, also if the batch script gives one to each.
  env.Set("SLURM_GPUS_PER_TASK", "1");
  env.Unset("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(Completed({}, env).host_share->first_local_rank, 1);
  env.Set("CUDA_VISIBLE_DEVICES", "0,1");
  EXPECT_EQ(Completed({}, env).host_share->first_local_rank, 1);
  // The tasks share the only GPU of their node.
  env.Set("CUDA_VISIBLE_DEVICES", "0");
  env.Set("SLURM_GPUS_ON_NODE", "1");
  EXPECT_EQ(Completed({}, env).host_share->first_local_rank, 1);
}

}  // namespace
}  // namespace ddprun::launcher
