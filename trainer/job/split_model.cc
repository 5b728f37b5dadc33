#include "trainer/job/split_model.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "base/failure.h"
#include "base/text.h"
#include "trainer/parallel/pipeline_plan.h"

namespace ddprun::trainer {

namespace {

// The sizes that must be divided among ranks.
struct Sizes {
  int64_t heads = 0;  // must be divisible; 0: there are no heads
  int64_t smallest = std::numeric_limits<int64_t>::max();  // of all sizes that are cut
  std::string names;                                       // of the keys that set the sizes
};

Sizes SizesOf(const ModelOptions& model) {
  if (const auto* mlp = std::get_if<MlpOptions>(&model)) {
    Sizes sizes{.names = "model.layer_sizes"};
    for (size_t i = 1; i + 1 < mlp->sizes.size(); ++i) {
      sizes.smallest = std::min(sizes.smallest, mlp->sizes[i]);
    }
    return sizes;
  }
  const TransformerOptions* transformer = TransformerIn(model);
  if (transformer == nullptr) return {};
  Sizes sizes{.heads = transformer->num_attention_heads,
              .smallest = std::min(transformer->vocab_size, transformer->inner_size()),
              .names = "model.num_attention_heads"};
  const auto* llama = std::get_if<LlamaOptions>(&model);
  if (llama != nullptr && llama->num_key_value_heads > 0) {
    sizes.heads = std::gcd(sizes.heads, llama->num_key_value_heads);
    sizes.names += " and model.num_key_value_heads";
  }
  return sizes;
}

int64_t RowsOf(const at::Tensor& x) {
  return x.numel() / std::max<int64_t>(1, x.dim() == 4 ? x.size(1) : x.size(-1));
}

// Returns the multiplications of each part's forward pass for one sample. Unlike times, they are
// equal on every machine and in every run. If parts repeat, all other work, such as attention's
// products, is about proportional.
std::vector<double> CostsOf(const Model& model, const Batch& sample) {
  const at::NoGradGuard no_grad;
  std::vector<double> costs;
  at::Tensor x = sample.inputs;
  for (const Stage& stage : model.Stages(sample)) {
    const bool looks_up = costs.empty() && !x.is_floating_point();
    x = stage.forward(x);
    double weights = 0;
    for (const at::Tensor& parameter : model.ParametersOf(stage)) {
      if (parameter.dim() >= 2) weights += static_cast<double>(parameter.numel());
    }
    costs.push_back(looks_up ? static_cast<double>(x.numel())
                             : weights * static_cast<double>(RowsOf(x)));
  }
  return costs;
}

Failure BadStages(const std::string& title, std::string what, std::string hint) {
  return Failure(Error{.code = Code::kUsage,
                       .title = title,
                       .where = "strategy.type \"pipeline\"",
                       .what = std::move(what),
                       .hint = std::move(hint),
                       .page = "stages-of-a-pipeline"});
}

std::string ListOf(const std::vector<int64_t>& numbers) {
  return "[" + FormatList(numbers) + "]";
}

// Returns `given` as numbers of parts. If it counts blocks, the parts before the first block go to
// the first stage, and the parts behind the last block to the last stage.
std::vector<int64_t> GivenSplit(const std::vector<Stage>& parts,
                                std::vector<int64_t> given,
                                int stages) {
  const auto count = static_cast<int64_t>(parts.size());
  const auto blocks = std::ranges::count_if(parts, &Stage::is_block);
  const int64_t sum = std::accumulate(given.begin(), given.end(), int64_t{0});
  if (sum == blocks && !given.empty()) {
    const auto first = std::ranges::find_if(parts, &Stage::is_block) - parts.begin();
    given.front() += first;
    given.back() += count - blocks - first;
  }
  if ((sum == blocks || sum == count) && std::cmp_equal(given.size(), stages) &&
      std::ranges::all_of(given, [](int64_t one) { return one > 0; })) {
    return given;
  }
  throw BadStages("LAYERS DO NOT FIT",
                  "strategy.layers_per_stage is " + ListOf(given) + " for " +
                      std::to_string(stages) + " stages; the model has " + std::to_string(blocks) +
                      " repeated layers, " + std::to_string(count) +
                      " with what is before and behind them.",
                  "Give " + std::to_string(stages) + " numbers of layers whose sum is " +
                      std::to_string(blocks) + " or " + std::to_string(count) +
                      ", none of them without anything to do, or remove the key.");
}

}  // namespace

void CheckTensorParallel(const Job& job, int64_t ranks) {
  const Sizes sizes = SizesOf(job.model);
  if (ranks == 1 || (sizes.heads % ranks == 0 && sizes.smallest >= ranks)) return;
  std::string fitting;
  for (int64_t i = 1; i <= std::max<int64_t>(sizes.heads, 1) && i <= sizes.smallest; ++i) {
    if (sizes.heads > 0 && sizes.heads % i == 0) {
      fitting += (fitting.empty() ? "" : ", ") + std::to_string(i);
    }
  }
  if (sizes.heads == 0) fitting = "at most " + std::to_string(sizes.smallest);
  throw Failure(Error{.code = Code::kUsage,
                      .title = "LAYERS CANNOT BE DIVIDED",
                      .where = job.config_path,
                      .what = "Each layer is to be divided among " + std::to_string(ranks) +
                              " ranks, which is more than some layers have parts, or no divisor\n"
                              "of the number of heads (" +
                              sizes.names + ").",
                      .hint = "This model fits strategy.tensor_parallel_size " + fitting + ".",
                      .page = "uneven-parts"});
}

Batch FirstSample(const Job& job) {
  const int64_t index = 0;
  return job.train->Get({&index, 1});
}

std::vector<int64_t> PartsOfStages(const Job& job, const Model& model, int stages) {
  const Batch sample = FirstSample(job);
  const std::vector<Stage> parts = model.Stages(sample);
  if (std::cmp_less(parts.size(), stages)) {
    throw BadStages("TOO MANY STAGES",
                    "The model has " + std::to_string(parts.size()) + " parts, but there are " +
                        std::to_string(stages) + " stages: one at least for each was expected.",
                    "Take at most " + std::to_string(parts.size()) +
                        " stages (strategy.pipeline_parallel_size, or strategy.devices), or a "
                        "model of more layers.");
  }
  const std::vector<int64_t>& given = job.config.strategy.layers_per_stage;
  if (!given.empty()) return GivenSplit(parts, given, stages);
  if (model.parameters()[0].is_meta()) return {};
  return BalancedSplit(CostsOf(model, sample), stages);
}

void CheckStages(const Job& job, const ParallelDims& dims) {
  if (dims.in_stages && job.shape != nullptr) PartsOfStages(job, *job.shape, dims.stages);
}

int64_t PipelineMicroBatches(const Job& job, const ParallelDims& dims) {
  const StrategyConfig& strategy = job.config.strategy;
  if (!dims.in_stages || dims.one_by_one) return 1;
  if (strategy.pipeline_micro_batches > 0) return strategy.pipeline_micro_batches;
  // A batch norm takes its statistics from a micro-batch, so micro-batches must not shrink.
  if (job.shape == nullptr || !job.shape->buffers().empty()) return 1;
  const int64_t wanted = 2 * static_cast<int64_t>(dims.stages);
  const int64_t there = job.config.training.gradient_accumulation_steps;
  return (wanted + there - 1) / there;
}

}  // namespace ddprun::trainer
