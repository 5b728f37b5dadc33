#include "trainer/config/parallel_dims.h"

#include <gtest/gtest.h>

#include "tests/trainer/config/config_text_fixture.h"

namespace ddprun::trainer {
namespace {

Result<ParallelDims> DimsOf(int world, std::vector<std::string> overrides) {
  const Result<Config> config = Read({kGpt, std::move(overrides)});
  if (!config.has_value()) return config.error();
  return ResolveDims(*config, world);
}

// "average p2 d3 stages2": sizes other than 1, and a shard other than all.
std::string TextOf(const Result<ParallelDims>& result) {
  if (!result.has_value()) return result.error().page;
  const ParallelDims& dims = *result;
  const char* const replicas[] = {"none",      "average",    "optimizer",
                                  "gradients", "parameters", "devices"};
  std::string text = replicas[static_cast<size_t>(dims.replicas)];
  const auto add = [&text](const char* word, int number, int otherwise) {
    if (number != otherwise) text += std::string(" ") + word + std::to_string(number);
  };
  EXPECT_EQ(dims.world, dims.tensor * dims.pipeline * dims.data);
  add("t", dims.tensor, 1);
  add("p", dims.pipeline, 1);
  if (dims.world > 0) add("d", dims.data, 1);
  add("shard", dims.shard, dims.data);
  if (dims.in_stages) add("stages", dims.stages, -1);
  EXPECT_TRUE(dims.in_stages || dims.stages == 1);
  add("devices", static_cast<int>(dims.devices.size()), 0);
  return text + (dims.one_by_one ? " one by one" : "") + (dims.needs_group() ? "" : " alone");
}

struct Row {
  std::vector<std::string> overrides;
  std::vector<std::string> of_ranks;  // for 0 (unknown), 1, 2, 4 and 6 ranks
};

TEST(ParallelDims, AreWhatTheWordsMeanForANumberOfRanks) {
  const std::string tensor = "strategy.tensor_parallel_size=2";
  const std::string stages = "strategy.pipeline_parallel_size=2";
  const std::string shards = "strategy.shard_size=2";
  const std::string devices = R"(strategy.devices=["cpu","cpu","cpu"])";
  const std::string many = "too-many-ranks";
  const std::vector<Row> rows = {
      {{}, {"average", "none alone", "average d2", "average d4", "average d6"}},
      {{"training.virtual_ranks=6"},
       {"average", "average", "average d2", "average d4", "average d6"}},
      {{"strategy.type=single"}, {"none alone", "none alone"}},
      {{"strategy.type=ddp"}, {"average", "average", "average d2", "average d4", "average d6"}},
      {{"strategy.type=dp", devices}, {"devices devices3 alone", "devices devices3 alone"}},
      {{"strategy.type=model_parallel", devices},
       {"average stages3 devices3 one by one alone", "none stages3 devices3 one by one alone"}},
      {{"strategy.type=pipeline", devices},
       {"average stages3 devices3 alone", "none stages3 devices3 alone"}},
      {{"strategy.type=pipeline"},
       {"average p0 stages0", "none stages1", "none p2 stages2", "none p4 stages4",
        "none p6 stages6"}},
      {{"strategy.type=pipeline", stages},
       {"average p2 stages2", many, "none p2 stages2", "average p2 d2 stages2",
        "average p2 d3 stages2"}},
      {{"strategy.type=pipeline", tensor},
       {"average t2 p0 stages0", many, "none t2 stages1", "none t2 p2 stages2",
        "none t2 p3 stages3"}},
      {{"strategy.type=pipeline", tensor, stages},
       {"average t2 p2 stages2", many, many, "none t2 p2 stages2", many}},
      {{"strategy.type=tensor_parallel"},
       {"average t0", "none alone", "none t2", "none t4", "none t6"}},
      {{"strategy.type=tensor_parallel", tensor},
       {"average t2", many, "none t2", "average t2 d2", "average t2 d3"}},
      {{"strategy.type=zero1"},
       {"optimizer", "optimizer", "optimizer d2", "optimizer d4", "optimizer d6"}},
      {{"strategy.type=zero1", stages},
       {"optimizer p2 stages2", many, "none p2 stages2", "optimizer p2 d2 stages2",
        "optimizer p2 d3 stages2"}},
      {{"strategy.type=zero1", stages, tensor},
       {"optimizer t2 p2 stages2", many, many, "none t2 p2 stages2", many}},
      {{"strategy.type=zero2", shards},
       {"gradients shard2", many, "gradients d2", "gradients d4 shard2", "gradients d6 shard2"}},
      {{"strategy.type=zero2", tensor, shards},
       {"gradients t2 shard2", many, many, "gradients t2 d2", many}},
      {{"strategy.type=zero3"},
       {"parameters", "parameters", "parameters d2", "parameters d4", "parameters d6"}},
      {{"strategy.type=zero3", tensor},
       {"parameters t2", many, "none t2", "parameters t2 d2", "parameters t2 d3"}},
  };
  for (const Row& row : rows) {
    const std::vector<int> worlds = {0, 1, 2, 4, 6};
    for (size_t i = 0; i < row.of_ranks.size(); ++i) {
      EXPECT_EQ(TextOf(DimsOf(worlds[i], row.overrides)), row.of_ranks[i])
          << worlds[i] << " ranks, " << testing::PrintToString(row.overrides);
    }
  }
}

TEST(ParallelDims, SayHowManyRanksAReplicaTakes) {
  const Result<ParallelDims> dims =
      DimsOf(6, {"strategy.type=pipeline", "strategy.pipeline_parallel_size=4"});
  ASSERT_FALSE(dims.has_value());
  EXPECT_EQ(dims.error().code, Code::kUsage);
  EXPECT_EQ(dims.error().where, "strategy.type \"pipeline\"");
  EXPECT_EQ(dims.error().what,
            "Each replica of the model takes 4 ranks; there are 6, which is no multiple of that.");
}

}  // namespace
}  // namespace ddprun::trainer
