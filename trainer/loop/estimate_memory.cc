#include "trainer/loop/estimate_memory.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <vector>

#include "base/cgroup_memory.h"
#include "base/failure.h"
#include "trainer/models/step_memory.h"
#include "trainer/report/format.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;

// Measured: of a rank without a model, with its part of what the ranks share.
constexpr double kWorkerBytes = 30 << 20;
// Measured: blocks that the allocator keeps though nothing at the moment fits them.
constexpr double kKeptBlocks = 1.4;
// The same where gradients come to lie between blocks that are computed twice.
constexpr double kKeptWhenRecomputing = 2.0;
constexpr double kTolerance = 0.2;  // of the estimate
constexpr int64_t kTextsLookedAt = 64;

struct Lengths {
  double mean = 0;
  double deviation = 0;
  int64_t longest = 0;
};

// Of texts spread evenly over the data.
Lengths LookAtTexts(const Dataset& data) {
  const int64_t count = std::min(kTextsLookedAt, data.size());
  Lengths lengths;
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = i * data.size() / count;
    const Batch text = data.Get({&index, 1});
    const int64_t length = text.inputs.size(1);
    lengths.longest = std::max(lengths.longest, length);
    lengths.mean += static_cast<double>(length) / static_cast<double>(count);
    squares += static_cast<double>(length * length) / static_cast<double>(count);
  }
  lengths.deviation = std::sqrt(std::max(0.0, squares - lengths.mean * lengths.mean));
  return lengths;
}

double StateCopies(const OptimizerConfig& optimizer) {
  if (optimizer.type == OptimizerType::kSgd) return optimizer.momentum != 0 ? 1 : 0;
  return 2;
}

// Bytes of one sample's inputs and targets.
double SampleBytes(const Job& job) {
  const DataShape shape = job.train->shape();
  if (shape.input.empty())
    return static_cast<double>(job.largest_batch.length) * 4 * sizeof(int64_t);
  const auto product = [](const std::vector<int64_t>& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), 1.0, std::multiplies<>());
  };
  return (product(shape.input) + product(shape.target)) * sizeof(float);
}

bool InBuckets(const Job& job, int world_size) {
  const StrategyType type = job.config.strategy.type;
  return type == StrategyType::kDdp || job.config.training.virtual_ranks > 0 ||
         (type == StrategyType::kAuto && world_size > 1);
}

std::string Sized(const char* what, double bytes) {
  return std::string(what) + " " + ByteText(bytes);
}

// What to lower, by what takes the most.
std::string WhatToLower(const Job& job, const MemoryEstimate& estimate) {
  if (estimate.with_batch > estimate.total() / 2) {
    const ModelType type = job.config.model.type;
    const bool texts = type == ModelType::kGpt || type == ModelType::kLlama;
    return std::string("Most of it is the activations: lower ") +
           "training.per_device_train_batch_size (and raise\n"
           "training.gradient_accumulation_steps as much)" +
           (texts ? " or data.max_seq_length." : ".");
  }
  return std::string("Most of it is the model: make it smaller (the sizes in the model section)") +
         (estimate.optimizer > 0 ? ", start fewer\nranks (--nproc_per_node), or take "
                                   "optimizer.type \"sgd\", which keeps less state."
                                 : ", or\nstart fewer ranks (--nproc_per_node).");
}

}  // namespace

BatchSize LargestBatch(const Job& job) {
  const TrainingConfig& training = job.config.training;
  BatchSize batch{.samples = std::min(training.per_device_train_batch_size, job.train->size()),
                  .length = std::min(job.config.data.max_seq_length,
                                     job.config.model.max_position_embeddings),
                  .bf16 = training.precision != Precision::kFp32,
                  .label_smoothing = training.label_smoothing > 0};
  const auto samples = static_cast<double>(batch.samples);
  batch.tokens = samples * static_cast<double>(batch.length);
  if (job.config.data.format != DataFormat::kTextClassification) return batch;
  const Lengths lengths = LookAtTexts(*job.train);
  batch.length = lengths.longest;
  // Of many batches the largest is some three deviations above the mean; of sorted ones, full.
  const double largest = job.config.data.length_grouped
                             ? samples * static_cast<double>(batch.length)
                             : samples * lengths.mean + 3 * std::sqrt(samples) * lengths.deviation;
  batch.tokens = std::min(largest, samples * static_cast<double>(batch.length));
  return batch;
}

MemoryEstimate EstimateMemory(const Job& job, int world_size) {
  MemoryEstimate estimate;
  const bool in_buckets = InBuckets(job, world_size);
  if (job.shape != nullptr) {
    estimate.parameters = static_cast<double>(StateBytes(*job.shape));
  } else if (const auto* script = std::get_if<TorchScriptOptions>(&job.model)) {
    std::error_code error;
    const auto bytes = fs::file_size(script->path, error);
    if (!error) estimate.parameters = static_cast<double>(bytes);
  }
  const double trained = estimate.parameters;
  const double moments = trained * StateCopies(job.config.optimizer);
  const bool compresses = job.config.strategy.comm_hook == CommHookType::kPowerSgd && in_buckets;
  const double lost = compresses ? trained : 0;  // in compressing
  estimate.optimizer = moments + lost;
  const CheckpointConfig& checkpoint = job.config.checkpoint;
  if (checkpoint.save_steps.amount > 0 || !checkpoint.save_best.empty()) {
    // The ranks share out what all of them have.
    const double of_optimizer = checkpoint.save_only_model ? 0 : moments / world_size + lost;
    estimate.checkpoint = trained / world_size + of_optimizer;
  }
  const RankRange own = LogicalRanksOf(job.config, 0, world_size).own;
  // With sums of virtual ranks: of two, four, ... of them.
  const auto levels = static_cast<double>(std::bit_width(static_cast<uint64_t>(own.size())));
  estimate.gradients = trained * levels;
  const BatchSize& batch = job.largest_batch;
  const int64_t micro_batches = job.config.training.gradient_accumulation_steps * own.size();
  std::optional<std::vector<StageMemory>> stages;
  if (job.shape != nullptr) stages = MemoryOfStages(job.model, *job.shape, batch);
  if (stages) {
    const bool recomputes = job.config.training.gradient_checkpointing;
    if (recomputes) stages = WithRecomputedBlocks(*stages);
    const double kept = recomputes ? kKeptWhenRecomputing : kKeptBlocks;
    // Elsewhere the gradients grow while the activations go, and are in the sum.
    const bool there_before = in_buckets || micro_batches > 1;
    estimate.activations = kept * PeakBytes(*stages, there_before);
    if (!there_before) estimate.activations = std::max(0.0, estimate.activations - trained);
    for (const StageMemory& stage : *stages) estimate.with_batch += kept * stage.saved;
  }
  estimate.complete = stages.has_value();
  const DataConfig& data = job.config.data;
  const int64_t ahead =
      job.train->in_memory() ? 0 : data.dataloader_num_workers * data.dataloader_prefetch_factor;
  estimate.batches = SampleBytes(job) * static_cast<double>(batch.samples) *
                     static_cast<double>(micro_batches + ahead);
  estimate.with_batch += estimate.batches;
  return estimate;
}

std::string MemoryText(const MemoryEstimate& estimate) {
  return (estimate.complete ? "about " : "at least ") + ByteText(kWorkerBytes + estimate.total()) +
         " a rank";
}

void CheckMemory(const Job& job, const RankInfo& rank) {
  const MemoryEstimate estimate = EstimateMemory(job, rank.world_size);
  const auto limit = ReadMemoryLimit();
  const double needed = estimate.total() * rank.local_world_size;
  if (!limit || needed * (1 - kTolerance) < static_cast<double>(limit->bytes)) return;
  throw Failure(
      Error{.code = Code::kUsage,
            .title = "NOT ENOUGH MEMORY",
            .where = job.config_path,
            .what = std::to_string(rank.local_world_size) +
                    (rank.local_world_size == 1 ? " rank needs" : " ranks need") + " about " +
                    ByteText(needed) + "; " +
                    (limit->of_cgroup ? "this job's cgroup may use " : "this machine has ") +
                    ByteText(static_cast<double>(limit->bytes)) +
                    ".\nEach: " + Sized("parameters", estimate.parameters) + ", " +
                    Sized("gradients", estimate.gradients) + ", " +
                    Sized("optimizer", estimate.optimizer) + ", " +
                    Sized("activations", estimate.activations + estimate.batches) +
                    (estimate.checkpoint > 0
                         ? ",\n" + Sized("copy for a checkpoint", estimate.checkpoint) + "."
                         : "."),
            .hint = WhatToLower(job, estimate),
            .page = "not-enough-memory"});
}

void CheckDisk(const Job& job) {
  if (!job.config.checkpoint.save_at_end || job.shape == nullptr) return;
  // The part of it that exists.
  std::error_code error;
  fs::path folder = fs::absolute(job.config.run.output_dir, error);
  while (!fs::is_directory(folder, error) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return;
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  const auto needed = static_cast<double>(StateBytes(*job.shape));
  if (needed <= free) return;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "NOT ENOUGH DISK SPACE",
                      .where = folder.string(),
                      .what = "The weights that are saved at the end take " + ByteText(needed) +
                              "; the disk of \"" + folder.string() + "\" has " + ByteText(free) +
                              " left.",
                      .hint = "Make room there, give another folder (run.output_dir), or save no "
                              "weights\n(checkpoint.save_at_end false).",
                      .page = "not-enough-disk-space"});
}

void CheckNeeds(const Job& job, const RankInfo& rank) {
  CheckMemory(job, rank);
  if (rank.rank == 0) CheckDisk(job);
}

}  // namespace ddprun::trainer
