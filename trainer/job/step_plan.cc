#include "trainer/job/step_plan.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/text.h"
#include "trainer/job/options_of.h"

namespace ddprun::trainer {

namespace {

Error TooFewSamples(const Config& config, int64_t samples, std::string what) {
  const std::string shorter =
      config.data.format == DataFormat::kText || config.data.format == DataFormat::kTokens
          ? ", or shorter samples\n(data.max_seq_length)"
          : "";
  return Error{
      .code = Code::kUsage,
      .title = "TOO FEW SAMPLES",
      .what = "The training data has " + CountText(samples, "sample") + std::move(what),
      .hint = "Give it more data, " +
              std::string(config.training.virtual_ranks > 0 ? "fewer training.virtual_ranks"
                                                            : "fewer ranks (--nproc_per_node)") +
              ", or smaller batches" + shorter + ".",
      .page = "too-few-samples"};
}

}  // namespace

DistributedSamplerOptions ShareOptions(const Config& config,
                                       int64_t samples,
                                       const LogicalRank& rank) {
  const DataConfig& data = config.data;
  const bool by_step = data.sample_order == SampleOrder::kWorldSizeIndependent;
  const int64_t rank_batch = TrainLoaderOptions(config, /*epoch=*/0).batch_size *
                             config.training.gradient_accumulation_steps;
  return {.dataset_size = samples,
          .num_replicas = rank.count,
          .rank = rank.index,
          .shuffle = data.shuffle,
          .seed = static_cast<uint64_t>(data.data_seed),
          .drop_last = by_step ? data.dataloader_drop_last : data.sampler_drop_last,
          .global_batch = by_step ? rank_batch * rank.count : 0,
          .group_size = by_step ? rank_batch * rank.count : rank_batch};
}

Result<StepPlan> PlanSteps(const Config& config, int64_t samples, int64_t data_ranks) {
  const int64_t batch = TrainLoaderOptions(config, /*epoch=*/0).batch_size;
  const int64_t accumulation = config.training.gradient_accumulation_steps;
  if (samples == 0) return TooFewSamples(config, samples, ": there is nothing to learn from.");
  StepPlan plan{.data_ranks = data_ranks, .step_samples = batch * accumulation * data_ranks};
  plan.samples_per_rank = ShareOf(ShareOptions(config, samples, {.count = data_ranks})).size;
  plan.batches_per_epoch =
      CountBatches(plan.samples_per_rank, TrainLoaderOptions(config, /*epoch=*/0));
  const bool by_step = config.data.sample_order == SampleOrder::kWorldSizeIndependent;
  if (plan.samples_per_rank == 0 && !by_step) {
    return TooFewSamples(
        config, samples,
        ", but there are " + std::to_string(data_ranks) +
            " ranks, and data.sampler_drop_last leaves\nout what they cannot share "
            "equally: all of it.");
  }
  if (plan.batches_per_epoch == 0) {
    return TooFewSamples(
        config, samples,
        by_step ? ", less than one step of all ranks takes (" + std::to_string(plan.step_samples) +
                      "), and with data.sample_order\n\"world_size_independent\" "
                      "data.dataloader_drop_last drops it."
                : ", " + std::to_string(plan.samples_per_rank) +
                      " for each rank: less than one batch of " + std::to_string(batch) +
                      ", and data.dataloader_drop_last drops it.");
  }
  plan.steps_per_epoch = (plan.batches_per_epoch + accumulation - 1) / accumulation;
  plan.total_steps = config.run.max_steps;
  if (plan.total_steps <= 0) {
    const double steps = config.run.max_epochs * static_cast<double>(plan.steps_per_epoch);
    plan.total_steps = std::max<int64_t>(1, std::llround(std::ceil(steps)));
  }
  return plan;
}

bool IsDue(const Interval& every, int64_t step, const StepPlan& plan) {
  const double steps = StepsOf(every, plan.steps_per_epoch);
  if (steps <= 0) return false;
  return IntervalsIn(steps, step) > IntervalsIn(steps, step - 1);
}

void VisitPosition(StateVisitor& visitor, SamplerState& position) {
  auto seed = static_cast<int64_t>(position.seed);
  auto shuffle = static_cast<int64_t>(position.shuffle);
  visitor.Section("sampler.");
  visitor.Number("epoch", position.epoch);
  visitor.Number("samples", position.samples);
  visitor.Number("dataset_size", position.dataset_size);
  visitor.Number("group_size", position.group_size);
  visitor.Number("seed", seed);
  visitor.Number("shuffle", shuffle);
  position.seed = static_cast<uint64_t>(seed);
  position.shuffle = shuffle != 0;
}

SamplerState PositionFor(const StepPlan& plan, SamplerState saved) {
  const int64_t end = plan.samples_per_rank * plan.data_ranks;
  const bool all = saved.samples >= saved.dataset_size;
  const int64_t shared = saved.samples - saved.samples % plan.data_ranks;
  saved.samples = all ? end : std::min(shared, end);
  return saved;
}

}  // namespace ddprun::trainer
