// Runs of 20 steps against PyTorch's DistributedDataParallel, from the same start weights
// (tests/golden). Two ranks are played by one process: their gradients are averaged by hand.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <vector>

#include <ddprun/optimizer.h>
#include <ddprun/sampler.h>
#include "tests/golden/golden_file.h"
#include "trainer/compute/norm.h"
#include "trainer/data/random_dataset.h"
#include "trainer/data/text_dataset.h"
#include "trainer/models/mlp.h"
#include "trainer/models/pretrained.h"
#include "trainer/optim/schedule.h"

namespace ddprun::trainer {
namespace {

using nlohmann::json;

// One rank's batches, epoch after epoch.
class RankBatches {
 public:
  RankBatches(const Dataset& dataset, const json& settings, int64_t rank, int64_t world)
      : dataset_(dataset),
        batch_size_(settings.at("batch_size_per_rank")),
        sampler_({.dataset_size = dataset.size(),
                  .num_replicas = world,
                  .rank = rank,
                  .seed = settings.at("sampler_seed")}),
        indices_(sampler_.Indices()) {}

  Batch Next() {
    if (position_ == indices_.size()) {
      sampler_.set_epoch(sampler_.epoch() + 1);
      indices_ = sampler_.Indices();
      position_ = 0;
    }
    const size_t count = std::min(batch_size_, indices_.size() - position_);
    const auto batch = std::span(indices_).subspan(position_, count);
    position_ += count;
    return dataset_.Get(batch);
  }

 private:
  const Dataset& dataset_;
  const size_t batch_size_;
  DistributedSampler sampler_;
  std::vector<int64_t> indices_;
  size_t position_ = 0;
};

struct Recipe {
  OptimizerOptions optimizer;
  double weight_decay = 0;
  ScheduleOptions schedule;
  double max_grad_norm = 0;
};

void ExpectLosses(Model& model, const Dataset& dataset, const Recipe& recipe, const json& golden) {
  // As in the script; and threads of this size wait for each other longer than they work.
  at::set_num_threads(1);
  double largest_difference = 0;
  for (const auto& [world_text, losses] : golden.at("losses").items()) {
    SCOPED_TRACE("world size " + world_text);
    const int64_t world = std::stoll(world_text);
    std::vector<at::Tensor> start;
    for (const at::Tensor& parameter : model.parameters()) {
      start.push_back(parameter.detach().clone());
    }
    std::vector<RankBatches> ranks;
    for (int64_t rank = 0; rank < world; ++rank) ranks.emplace_back(dataset, golden, rank, world);
    const auto optimizer =
        MakeOptimizer(recipe.optimizer, {{model.parameters(), recipe.weight_decay}});
    for (size_t step = 0; step < losses.size(); ++step) {
      double loss = 0;
      model.zero_grad();
      for (RankBatches& rank : ranks) {
        const at::Tensor share = model.Loss(rank.Next()) / static_cast<double>(world);
        share.backward();
        loss += share.item<double>();
      }
      const auto expected = losses[step].get<double>();
      EXPECT_NEAR(loss, expected, 1e-5) << "step " << step;
      largest_difference = std::max(largest_difference, std::abs(loss - expected));
      if (recipe.max_grad_norm > 0) {
        const std::vector<at::Tensor> gradients = GradientsOf(model.parameters());
        ClipTo(recipe.max_grad_norm, std::sqrt(SquaresOf(gradients)), gradients);
      }
      optimizer->Step(golden.at("learning_rate").get<double>() *
                      LearningRateFactor(recipe.schedule, static_cast<int64_t>(step)));
    }
    const auto parameters = model.parameters();
    for (size_t i = 0; i < start.size(); ++i) parameters[i].detach().copy_(start[i]);
  }
  std::cout << "largest difference: " << largest_difference << "\n";
}

TEST(GptLosses, EqualPyTorchDdpWithOneAndTwoRanks) {
  const json golden = golden::Read("gpt_losses.json");
  ASSERT_EQ(golden.at("losses").at("2").size(), 20);
  const TextDataset text(
      {.files = {golden::Path("text.txt")}, .sequence_length = golden.at("sequence_length")});
  const auto model = MakeModel(ReadModelOptions(golden::Path("gpt_init")));
  LoadWeights(*model, golden::Path("gpt_init"));
  ExpectLosses(*model, text,
               {.optimizer = {.kind = OptimizerType::kAdamW, .betas = golden.at("betas")},
                .weight_decay = golden.at("weight_decay"),
                .schedule = {.shape = LrSchedulerType::kCosine,
                             .warmup = golden.at("warmup_steps"),
                             .total_steps = golden.at("steps")},
                .max_grad_norm = golden.at("max_grad_norm")},
               golden);
}

TEST(ToyLosses, EqualPyTorchDdpWithOneAndTwoRanks) {
  const json golden = golden::Read("toy_losses.json");
  ASSERT_EQ(golden.at("losses").at("2").size(), 20);
  const RandomDataset data({.num_samples = golden.at("num_samples"),
                            .input_size = golden.at("layer_sizes").at(0),
                            .target_size = golden.at("layer_sizes").at(2),
                            .seed = golden.at("data_seed")});
  at::manual_seed(golden.at("model_seed"));
  const auto model = MakeModel(MlpOptions{.sizes = golden.at("layer_sizes")});
  ExpectLosses(*model, data,
               {.optimizer = {.kind = OptimizerType::kSgd},
                .schedule = {.shape = LrSchedulerType::kConstant}},
               golden);
}

}  // namespace
}  // namespace ddprun::trainer
