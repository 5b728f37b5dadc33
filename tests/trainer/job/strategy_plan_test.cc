// The memory and traffic of each strategy agree with the formulas of the textbook.
#include "trainer/job/strategy_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/trainer/loop/small_jobs.h"
#include "trainer/config/slot.h"

namespace ddprun::trainer {
namespace {

constexpr int64_t kLayers = 12;
constexpr double kWidth = 768;

// GPT-2 with its own small batch: weights are most of what it needs.
Job PlanJob(int64_t layers = kLayers, int64_t samples = 1) {
  Job job = MakeJob(samples, 1);
  job.config.optimizer = {};  // AdamW
  job.config.model.name_or_path = "";
  job.config.checkpoint.save_steps.amount = 0;
  GptOptions gpt;
  gpt.vocab_size = 50257;
  gpt.max_position_embeddings = 64;
  gpt.hidden_size = static_cast<int64_t>(kWidth);
  gpt.num_hidden_layers = layers;
  gpt.num_attention_heads = 12;
  job.model = gpt;
  job.shape = MakeModelShape(gpt);
  job.config.model.max_position_embeddings = job.config.data.max_seq_length = 64;
  job.largest_batch = LargestBatch(job);
  return job;
}

// As ReadConfig does it for the keys of strategies.
ReadConfigWith ReadOver(const Config& config) {
  return [config](const std::vector<std::string>& keys) {
    Config read = config;
    for (const std::string& pair : keys) {
      const std::string key = pair.substr(0, pair.find('='));
      const std::string value = pair.substr(pair.find('=') + 1);
      if (key == "strategy.type") {
        const auto words = WordsOf(StrategyType());
        read.strategy.type =
            static_cast<StrategyType>(std::ranges::find(words, value) - words.begin());
      } else {
        (key == "strategy.shard_size"             ? read.strategy.shard_size
         : key == "strategy.tensor_parallel_size" ? read.strategy.tensor_parallel_size
                                                  : read.strategy.pipeline_parallel_size) =
            std::stoll(value);
      }
    }
    return read;
  };
}

StrategyPlan PlanFor8(Job job, int local, double gib) {
  const ReadConfigWith read = ReadOver(job.config);
  return PlanStrategies(std::move(job), read, {.world_size = 8, .local_world_size = local},
                        MemoryLimit{.bytes = static_cast<int64_t>(gib * (1 << 30))});
}

const StrategyCost& CostIn(const StrategyPlan& plan, const std::string& name) {
  const auto found = std::ranges::find(plan.strategies, name, &PlannedStrategy::name);
  if (found == plan.strategies.end() || !found->cost) throw std::runtime_error("no " + name);
  return *found->cost;
}

TEST(StrategyPlan, SharesOutTheStateAsTheStrategySays) {
  const Job job = PlanJob();
  const auto model = static_cast<double>(StateBytes(*job.shape));
  const StrategyPlan plan = PlanFor8(PlanJob(), 8, 64);
  const auto state = [&plan](const char* name) {
    const MemoryEstimate& memory = CostIn(plan, name).memory;
    return memory.parameters + memory.gradients + memory.optimizer;
  };
  EXPECT_DOUBLE_EQ(state("ddp"), 4 * model);
  EXPECT_DOUBLE_EQ(state("zero1"), (2 + 2.0 / 8) * model);
  // The largest parameter, the token embedding, is larger than a bucket.
  const double table = 50257 * kWidth * 4;
  EXPECT_DOUBLE_EQ(state("zero2"), (1 + 3.0 / 8) * model + 3 * table);
  // Gradients of what is in no block come at once.
  const double block = 12 * kWidth * kWidth * 4;
  const double outside = model - kLayers * block;
  EXPECT_DOUBLE_EQ(state("zero3"), 4.0 / 8 * model + outside);
  // From another machine blocks come and go; what is in none is there for the whole step.
  const MemoryEstimate far = CostIn(PlanFor8(PlanJob(), 4, 64), "zero3").memory;
  EXPECT_DOUBLE_EQ(far.parameters, model / 8 + 2 * block + outside);
  // Norms, biases and positions are on every rank.
  EXPECT_NEAR(state("tensor_parallel 2 x data 4"), 2 * model, 0.01 * model);
  EXPECT_GT(state("tensor_parallel 2 x data 4"), 2 * model);
  // One of four stages has the embedding and another the head, which share weights.
  EXPECT_GT(state("pipeline 4 x data 2"), model);
  EXPECT_LT(state("pipeline 4 x data 2"), 2.5 * model);
  // zero3 divides the halves of tensor 2 again; four replicas divide the optimizer's state.
  EXPECT_NEAR(state("zero3 x tensor 2"), (model + outside) / 2, 0.02 * model);
  // The head takes the time of five layers: the first of two stages has nine of the twelve.
  EXPECT_NEAR(state("pipeline 2 x tensor 2 x data 2"), 4 * (9 * block + table) / 2, 0.02 * model);
  EXPECT_NEAR(state("zero1 x pipeline 2"), 2.5 / 4 * state("pipeline 2 x data 4"), 1);
}

TEST(StrategyPlan, CountsWhatRanksSend) {
  const Job job = PlanJob();
  const auto model = static_cast<double>(StateBytes(*job.shape));
  const StrategyPlan plan = PlanFor8(PlanJob(), 8, 64);
  EXPECT_DOUBLE_EQ(CostIn(plan, "ddp").sent, 2 * 7.0 / 8 * model);
  EXPECT_DOUBLE_EQ(CostIn(plan, "zero1").sent, 3 * 7.0 / 8 * model);
  EXPECT_DOUBLE_EQ(CostIn(plan, "zero2").sent, CostIn(plan, "ddp").sent);
  EXPECT_DOUBLE_EQ(CostIn(plan, "zero3").sent, 7.0 / 8 * model);
  EXPECT_DOUBLE_EQ(CostIn(PlanFor8(PlanJob(), 4, 64), "zero3").sent, 3 * 7.0 / 8 * model);
  // One sample of 64 tokens: four sums a layer, one each of the embedding and the head.
  const double hidden = 64 * kWidth * 4;
  Job of_4 = PlanJob();
  of_4.config.strategy.type = StrategyType::kTensorParallel;
  EXPECT_DOUBLE_EQ(CostOf(of_4, {.world_size = 4, .local_world_size = 4}).sent,
                   2 * 3.0 / 4 * (4 * kLayers + 2) * hidden);
  const double table = 50257 * kWidth * 4;
  // Each inner stage sends activations on and gradients back; the first and the last stage sum the
  // gradient of their embedding.
  Job split = PlanJob(kLayers, 16);
  split.config.strategy.pipeline_micro_batches = 16;
  const StrategyPlan of_16 = PlanFor8(std::move(split), 8, 64);
  EXPECT_DOUBLE_EQ(CostIn(of_16, "pipeline 8").sent, 16 * hidden + table);
  EXPECT_DOUBLE_EQ(CostIn(of_16, "pipeline 8").idle, 7.0 / (16 + 7));
}

TEST(StrategyPlan, KeepsFewerMicroBatchesWithOneForwardOneBackward) {
  Job job = PlanJob(kLayers, 8);
  job.config.strategy.type = StrategyType::kPipeline;
  job.config.strategy.pipeline_parallel_size = 2;
  job.config.strategy.pipeline_micro_batches = 8;
  const auto kept = [&job] {
    const MemoryEstimate last = EstimateStages(job, 2)[1];
    return last.with_batch - last.batches;
  };
  const double one = kept();
  job.config.strategy.pipeline_schedule = PipelineSchedule::kGpipe;
  EXPECT_DOUBLE_EQ(kept(), 8 * one);
}

TEST(EstimateMemory, OfADeviceHasTheCopyOfItsStateOnTheHost) {
  Job job = PlanJob();
  job.config.checkpoint.save_steps.amount = 1;
  const MemoryEstimate on_cpu = EstimateMemory(job, 2);
  EXPECT_DOUBLE_EQ(on_cpu.host(), on_cpu.total());
  const CudaModule module{};
  job.device.module = &module;
  const MemoryEstimate on_device = EstimateMemory(job, 2);
  EXPECT_GT(on_device.checkpoint, 0);
  EXPECT_DOUBLE_EQ(on_device.checkpoint, on_cpu.checkpoint);
  EXPECT_DOUBLE_EQ(on_device.total(), on_cpu.total());
  EXPECT_DOUBLE_EQ(on_device.host(), on_device.worker + on_device.batches + on_device.checkpoint);
  EXPECT_DOUBLE_EQ(MemoryOfNode(job, {.rank = 0, .world_size = 2, .local_world_size = 2}),
                   2 * on_device.host());
}

TEST(EstimateMemory, CountsRanksOfTheJobOnlyWhereEachLocalRankIsZero) {
  const Job job = PlanJob();
  const double two = MemoryOfNode(job, {.rank = 0, .world_size = 2, .local_world_size = 2});
  // --virtual_local_rank
  EXPECT_DOUBLE_EQ(MemoryOfNode(job, {.rank = 1, .world_size = 2, .local_world_size = 2}), two);
  EXPECT_DOUBLE_EQ(
      MemoryOfNode(job, {.rank = 3, .world_size = 4, .local_world_size = 2, .node_rank = 1}), two);
}

TEST(EstimateMemory, OfADeviceHasNoProbabilitiesOfAttentionButLargePiecesOfScores) {
  constexpr double kSamples = 1024;
  Job job = PlanJob(kLayers, static_cast<int64_t>(kSamples));
  job.largest_batch.samples = static_cast<int64_t>(kSamples);
  job.largest_batch.tokens = kSamples * 64;
  job.largest_batch.bf16 = true;
  const auto bytes = [&job](bool on_device) {
    job.largest_batch.on_device = on_device;
    return MemoryOfNode(job, {.rank = 0, .world_size = 1, .local_world_size = 1});
  };
  const double probabilities = kLayers * kSamples * 12 * 64 * 64 * (4 + 2);
  const double pieces = 5 * (256 << 20) - (32 << 20);
  const double saved = bytes(false) - bytes(true);
  EXPECT_NEAR(saved, probabilities - pieces, probabilities * 0.1);
}

TEST(StrategyPlan, OfSeveralMachinesKeepsShardsWithinEach) {
  const StrategyPlan plan = PlanFor8(PlanJob(), 4, 64);
  const StrategyCost& near = CostIn(plan, "zero3 in 2 replicas");
  EXPECT_GT(near.memory.total(), CostIn(plan, "zero3").memory.total());
  EXPECT_LT(near.sent, CostIn(plan, "zero3").sent);
}

TEST(StrategyPlan, TakesTheFirstThatFits) {
  const StrategyPlan roomy = PlanFor8(PlanJob(), 8, 64);
  EXPECT_EQ(roomy.strategies.at(roomy.taken.value()).name, "ddp");
  const StrategyPlan tight = PlanFor8(PlanJob(), 8, 15);
  EXPECT_EQ(tight.strategies.at(tight.taken.value()).name, "zero1");
  EXPECT_FALSE(PlanFor8(PlanJob(), 8, 0.5).taken);
}

TEST(StrategyPlan, TakesBackSizesThatAStrategyHasNot) {
  Job job = PlanJob();
  job.config.strategy.type = StrategyType::kZero1;
  job.config.strategy.tensor_parallel_size = 2;
  job.config.strategy.pipeline_parallel_size = 2;
  const StrategyPlan plan = PlanFor8(std::move(job), 8, 64);
  const auto keys = [&plan](const char* name) {
    const auto found = std::ranges::find(plan.strategies, name, &PlannedStrategy::name);
    return found == plan.strategies.end() ? std::vector<std::string>() : found->keys;
  };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(keys("ddp"), (Keys{"strategy.type=ddp", "strategy.tensor_parallel_size=0",
                               "strategy.pipeline_parallel_size=0"}));
  EXPECT_EQ(keys("zero3 x tensor 2"),
            (Keys{"strategy.type=zero3", "strategy.pipeline_parallel_size=0"}));
  EXPECT_EQ(keys("pipeline 2 x tensor 2 x data 2"), (Keys{"strategy.type=pipeline"}));
}

TEST(StrategyPlan, IsTold) {
  Job job = PlanJob(96, 8);
  const ReadConfigWith read = ReadOver(job.config);
  StrategyPlan plan = PlanStrategies(
      std::move(job),
      [&read](const std::vector<std::string>& keys) {
        if (keys.front() == "strategy.type=zero2") {
          throw Failure(Error{.title = "",
                              .where = "",
                              .what = "A hook needs\nthe whole gradient.",
                              .hint = "",
                              .page = ""});
        }
        return read(keys);
      },
      {.world_size = 4, .local_world_size = 4}, MemoryLimit{.bytes = int64_t{40} << 30});
  EXPECT_EQ(PlanText(plan), R"(4 ranks on 1 machine of 40 GiB, each process 30 MiB and:

strategy                    samples a step  memory a rank  sent a step  idle  fits
ddp                                     32         14 GiB     4.02 GiB     -  no
zero1                                   32         10 GiB     6.03 GiB     -  perhaps
zero3                                   32       6.43 GiB     2.01 GiB     -  yes
tensor_parallel 2 x data 2              16       7.58 GiB     1.91 GiB     -  yes
tensor_parallel 4                        8       4.21 GiB      868 MiB     -  yes
pipeline 2 x data 2                     16       6.87 GiB     1.64 GiB  20 %  yes
pipeline 4                               8       3.63 GiB      149 MiB  27 %  yes
zero3 x tensor 2                        16       4.98 GiB     1.24 GiB     -  yes
zero1 x pipeline 2                      16       5.38 GiB     2.38 GiB  20 %  yes
pipeline 2 x tensor 2                    8       3.54 GiB      383 MiB  20 %  yes

Not zero2: A hook needs the whole gradient.

Take zero3: the first that fits, 26 GiB of 40 GiB: those before it may not.
  --set strategy.type=zero3
)");
  const auto json = nlohmann::json::parse(PlanJson(plan));
  EXPECT_EQ(json.at("take"), "zero3");
  EXPECT_EQ(json.at("memory_of_machine"), int64_t{40} << 30);
  EXPECT_EQ(json.at("strategies").size(), plan.strategies.size());
  const auto& first = json.at("strategies").at(0);
  EXPECT_EQ(first.at("set"), std::vector<std::string>{"strategy.type=ddp"});
  EXPECT_EQ(first.at("fits"), "no");
  EXPECT_EQ(first.at("memory_per_rank").at("optimizer"),
            2 * first.at("memory_per_rank").at("parameters").get<int64_t>());
  EXPECT_EQ(json.at("strategies").at(2).at("refused"), "A hook needs the whole gradient.");
}

}  // namespace
}  // namespace ddprun::trainer
