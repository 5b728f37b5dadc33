// Jobs small enough for ranks that are threads, and their training.
#pragma once

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <map>
#include <span>

#include "tests/golden/golden_file.h"
#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/job/open_model.h"
#include "trainer/job/plan_job.h"
#include "trainer/loop/trainer.h"

namespace ddprun::trainer {

inline constexpr int64_t kSamples = 24;
inline constexpr int64_t kTokens = 16;

// Byte sequences of which ever fewer targets count; every 6th sample has none.
class UnevenText final : public Dataset {
 public:
  // Draws from torch's generator for every batch as often as this says.
  explicit UnevenText(int draws = 0) : draws_(draws) {}
  int64_t size() const override { return kSamples; }
  bool equal_predictions() const override { return false; }
  bool in_memory() const override { return true; }
  Batch Get(std::span<const int64_t> indices) const override {
    if (draws_ > 0) at::rand({draws_});
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> targets;
    for (const int64_t index : indices) {
      const at::Tensor text = Random({kTokens + 1}, 100 + index).mul(20).add(100).to(at::kLong);
      at::Tensor target = text.slice(0, 1).clone();
      target.slice(0, 0, kTokens * (index % 6) / 6).fill_(-100);
      if (index % 6 == 5) target.fill_(-100);
      inputs.push_back(text.slice(0, 0, kTokens));
      targets.push_back(target);
    }
    Batch batch{.inputs = at::stack(inputs), .targets = at::stack(targets)};
    batch.samples = static_cast<int64_t>(indices.size());
    batch.predictions = batch.targets.ne(-100).sum().item<int64_t>();
    return batch;
  }

 private:
  const int draws_;
};

inline Job MakeJob(int64_t batch_size, int64_t accumulation) {
  Job job;
  job.config.run.max_steps = 4;
  job.config.model.name_or_path = golden::Path("gpt_init");
  job.config.data.max_seq_length = 32;
  job.config.data.shuffle = false;
  job.config.training.per_device_train_batch_size = batch_size;
  job.config.training.gradient_accumulation_steps = accumulation;
  job.config.training.max_grad_norm = 0;
  job.config.optimizer.type = OptimizerType::kSgd;
  job.config.optimizer.learning_rate = 0.5;
  job.config.optimizer.weight_decay = 0;
  job.model = OpenModel(job.config);
  job.train = std::make_unique<UnevenText>();
  return job;
}

using Weights = std::map<std::string, at::Tensor>;

// The models are small, and ranks are threads already.
inline Weights Train(const Job& job,
                     const Mesh& mesh = {},
                     const Observers* observers = nullptr,
                     std::span<const StrategyKind> kinds = StrategyKinds()) {
  at::set_num_threads(1);
  Trainer trainer(job, PlanFor(job, mesh.data.size), mesh, nullptr, Log::ToStderr({}));
  trainer.Build(/*joins=*/false, kinds);
  trainer.Fit(observers);
  Weights weights;
  for (const auto& item : trainer.model().named_parameters()) {
    weights[item.key()] = item.value().detach().clone();
  }
  for (const auto& item : trainer.model().named_buffers()) {
    weights[item.key()] = item.value().clone();
  }
  return weights;
}

}  // namespace ddprun::trainer
