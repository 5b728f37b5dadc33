#include "trainer/job/estimate_memory.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "base/cgroup_memory.h"
#include "base/check.h"
#include "base/failure.h"
#include "base/text.h"
#include "trainer/config/parallel_dims.h"
#include "trainer/job/model_part.h"
#include "trainer/job/step_plan.h"
#include "trainer/report/format.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;

// Measured: the allocator keeps blocks of memory although nothing fits them at the moment.
constexpr double kKeptBlocks = 1.4;
// Measured with gradient checkpointing, where gradients lie between blocks that are computed twice.
constexpr double kKeptWhenRecomputing = 2.0;
constexpr int64_t kTextsLookedAt = 64;

struct Lengths {
  double mean = 0;
  double deviation = 0;
  int64_t longest = 0;
};

// Measures some texts, spread evenly over the data.
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

double MomentCopies(const OptimizerConfig& optimizer) {
  switch (optimizer.type) {
    case OptimizerType::kSgd:
      return optimizer.momentum != 0 ? 1 : 0;
    case OptimizerType::kAdagrad:
    case OptimizerType::kLion:
      return 1;
    case OptimizerType::kAdamW:
    case OptimizerType::kAdam:
      return 2;
  }
  DDPRUN_CHECK(false);
}

// Returns how often the optimizer has tensors of the sizes of the parameters.
double StateCopies(const OptimizerConfig& optimizer) {
  return MomentCopies(optimizer) + (optimizer.ema_decay > 0 ? 1 : 0);
}

// Returns the bytes of one sample's inputs and targets.
double SampleBytes(const Job& job) {
  const DataShape shape = job.train->shape();
  if (shape.input.empty())
    return static_cast<double>(job.largest_batch.length) * 4 * sizeof(int64_t);
  const auto product = [](const std::vector<int64_t>& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), 1.0, std::multiplies<>());
  };
  return (product(shape.input) + product(shape.target)) * sizeof(float);
}

// Returns the bytes of buckets if a rank keeps a part of the gradients: two buckets are being
// summed while backward fills a third, each in its own memory.
double BucketBytes(const Job& job, Replicas replicas, const ModelPart& part) {
  if (replicas == Replicas::kShardParameters) return std::max(2 * part.block, part.outside);
  const double cap = job.config.strategy.bucket_cap_mb.number * (1 << 20);
  return std::min(part.trained, 3 * std::max(cap, part.largest));
}

std::string Sized(const char* what, double bytes) {
  return std::string(what) + " " + ByteText(bytes);
}

std::string PartsOnHost(const MemoryEstimate& estimate) {
  if (estimate.on_device) return Sized("batches", estimate.batches);
  return Sized("parameters", estimate.parameters) + ", " + Sized("gradients", estimate.gradients) +
         ", " + Sized("optimizer", estimate.optimizer) + ", " +
         Sized("activations", estimate.activations + estimate.batches);
}

std::string CopiesOnHost(const MemoryEstimate& estimate) {
  std::string text;
  if (estimate.checkpoint > 0) text += ",\n" + Sized("copy for a checkpoint", estimate.checkpoint);
  if (estimate.kept > 0) text += ",\n" + Sized("copies of run.recovery \"memory\"", estimate.kept);
  return text;
}

// Returns a hint about what to lower: it depends on what takes the most.
std::string WhatToLower(const Job& job, const MemoryEstimate& estimate) {
  if (!estimate.on_device && estimate.with_batch > estimate.total() / 2) {
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

// The free space for a folder that may not exist yet.
struct Room {
  std::string folder;  // the part of its path that exists
  double free = std::numeric_limits<double>::infinity();

  std::string Text() const {
    return "the disk of \"" + folder + "\" has " + ByteText(free) + " left";
  }
};

Room RoomFor(const std::string& path) {
  std::error_code error;
  fs::path folder = fs::absolute(path, error);
  while (!fs::is_directory(folder, error) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  Room room{.folder = folder.string()};
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return room;
  room.free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  return room;
}

}  // namespace

BatchSize LargestBatch(const Job& job) {
  const TrainingConfig& training = job.config.training;
  BatchSize batch{
      .samples = std::min(training.per_device_train_batch_size, job.train->size()),
      .length = std::min(job.config.data.max_seq_length, job.config.model.max_position_embeddings),
      .bf16 = training.precision != Precision::kFp32,
      .on_device = job.device.module != nullptr};
  const auto samples = static_cast<double>(batch.samples);
  batch.tokens = samples * static_cast<double>(batch.length);
  const DataFormat format = job.config.data.format;
  if (format != DataFormat::kTextClassification && format != DataFormat::kChat) return batch;
  const Lengths lengths = LookAtTexts(*job.train);
  batch.length = lengths.longest;
  // The largest of many batches is about 3 deviations above the mean; a sorted batch is full.
  const double largest = job.config.data.length_grouped
                             ? samples * static_cast<double>(batch.length)
                             : samples * lengths.mean + 3 * std::sqrt(samples) * lengths.deviation;
  batch.tokens = std::min(largest, samples * static_cast<double>(batch.length));
  return batch;
}

namespace {

// Returns a rank's parameters, gradients, optimizer state and their copy. `gathers` means that the
// rank gathers other ranks' parameters, because they are on other machines.
MemoryEstimate StateOf(const Job& job,
                       const ParallelDims& dims,
                       const ModelPart& part,
                       bool gathers) {
  const double model = part.parameters;
  const double moments = part.trained * StateCopies(job.config.optimizer);
  const bool compresses = job.config.strategy.comm_hook == CommHookType::kPowerSgd;
  const double lost =
      compresses && dims.replicas != Replicas::kNone ? part.trained : 0;  // error feedback
  const double own = dims.shares_state() ? 1.0 / dims.shard : 1;
  const double own_parameters = dims.replicas == Replicas::kShardParameters ? own : 1;
  const double own_gradients = dims.replicas >= Replicas::kShardGradients ? own : 1;
  MemoryEstimate estimate;
  estimate.on_device = job.device.module != nullptr;
  estimate.parameters = model - part.trained * (1 - own_parameters);
  estimate.gradients = part.trained * own_gradients;
  estimate.optimizer = moments * own + lost;
  if (job.config.run.recovery == "memory" && dims.shares_state() && !estimate.on_device) {
    estimate.kept = 2 * own * (part.trained + moments);
  }
  // A rank uses a block while it gathers the next block.
  if (own_parameters < 1 && gathers) estimate.parameters += 2 * part.block + part.outside;
  if (own_gradients < 1) estimate.gradients += BucketBytes(job, dims.replicas, part);
  const CheckpointConfig& checkpoint = job.config.checkpoint;
  if (checkpoint.save_steps.amount > 0 || !checkpoint.save_best.empty()) {
    // Ranks divide the copy of state that all of them have.
    const double of_optimizer = checkpoint.save_only_model ? 0 : moments / dims.data + lost;
    estimate.checkpoint = model / dims.data + of_optimizer;
  }
  return estimate;
}

// Adds the activations. `in_buckets` means that gradients have memory before backward.
void AddActivations(const Job& job,
                    const ModelPart& part,
                    bool in_buckets,
                    MemoryEstimate& estimate) {
  const double kept =
      job.config.training.gradient_checkpointing ? kKeptWhenRecomputing : kKeptBlocks;
  double saved = 0;
  for (const StageMemory& stage : *part.stages) saved += kept * stage.saved;
  estimate.activations = kept * PeakBytes(*part.stages, in_buckets) + (part.in_flight - 1) * saved;
  // Otherwise gradients grow while activations are freed, and PeakBytes() includes them.
  if (!in_buckets) estimate.activations = std::max(0.0, estimate.activations - part.trained);
  estimate.with_batch += part.in_flight * saved;
}

MemoryEstimate EstimateStage(const Job& job, const ParallelDims& dims, int on_machine, int stage) {
  const ModelPart part = PartOf(job, dims, stage);
  MemoryEstimate estimate =
      StateOf(job, dims, part, !ShardsAreOnOneMachine(dims.shard, on_machine));
  const RankRange own = LogicalRanksOf(job.config, 0, dims.data).own;
  // Virtual ranks also need sums of two, four, ... virtual ranks.
  estimate.gradients *= static_cast<double>(std::bit_width(static_cast<uint64_t>(own.size())));
  const int64_t micro_batches = job.config.training.gradient_accumulation_steps * own.size();
  estimate.complete = part.stages.has_value();
  if (estimate.complete) {
    const bool alone = dims.replicas == Replicas::kNone && !dims.in_parts();
    const bool in_buckets = !alone || micro_batches > 1;
    AddActivations(job, part, in_buckets, estimate);
  }
  for (double* bytes :
       {&estimate.parameters, &estimate.gradients, &estimate.activations, &estimate.with_batch}) {
    *bytes *= static_cast<double>(dims.sample_devices());  // each has a replica of the model
  }
  const DataConfig& config = job.config.data;
  const int64_t ahead = job.train->in_memory()
                            ? 0
                            : config.dataloader_num_workers * config.dataloader_prefetch_factor;
  estimate.batches = SampleBytes(job) * static_cast<double>(job.largest_batch.samples) *
                     static_cast<double>(micro_batches + ahead);
  estimate.with_batch += estimate.batches;
  return estimate;
}

}  // namespace

std::vector<MemoryEstimate> EstimateStages(const Job& job, int world_size, int on_machine) {
  const ParallelDims dims = ValueOrThrow(ResolveDims(job.config, world_size));
  std::vector<MemoryEstimate> stages;
  for (int stage = 0; stage < dims.pipeline; ++stage) {
    stages.push_back(EstimateStage(job, dims, on_machine, stage));
  }
  return stages;
}

MemoryEstimate EstimateMemory(const Job& job, int world_size, int on_machine) {
  return std::ranges::max(EstimateStages(job, world_size, on_machine), {}, &MemoryEstimate::total);
}

double MemoryOfNode(const Job& job, const RankInfo& rank) {
  const std::vector<MemoryEstimate> stages =
      EstimateStages(job, rank.world_size, rank.local_world_size);
  double sum = 0;
  // With --virtual_local_rank each local rank is 0, so only the node's first rank finds the first.
  const int first =
      std::clamp(rank.rank - rank.local_rank, 0, rank.world_size - rank.local_world_size);
  // The pipeline is the outermost axis of the mesh.
  for (int i = first; i < first + rank.local_world_size; ++i) {
    sum += stages[static_cast<size_t>(i) * stages.size() / static_cast<size_t>(rank.world_size)]
               .host();
  }
  return sum;
}

std::string MemoryText(const MemoryEstimate& estimate) {
  return (estimate.complete ? "about " : "at least ") + ByteText(estimate.total()) + " a rank";
}

void CheckMemory(const Job& job, const RankInfo& rank) {
  const MemoryEstimate estimate = EstimateMemory(job, rank.world_size, rank.local_world_size);
  const auto limit = ReadMemoryLimit();
  const double needed = MemoryOfNode(job, rank);
  if (!limit || needed * (1 - kEstimateTolerance) < static_cast<double>(limit->bytes)) return;
  throw Failure(
      Error{.code = Code::kUsage,
            .title = "NOT ENOUGH MEMORY",
            .where = job.config_path,
            .what = CountText(rank.local_world_size, "rank needs", "ranks need") + " about " +
                    ByteText(needed) + "; " +
                    (limit->of_cgroup ? "this job's cgroup may use " : "this machine has ") +
                    ByteText(static_cast<double>(limit->bytes)) +
                    ".\nEach: " + PartsOnHost(estimate) + CopiesOnHost(estimate) + ".",
            .hint = WhatToLower(job, estimate),
            .page = "not-enough-memory"});
}

void CheckDisk(const Job& job) {
  if (!job.config.checkpoint.save_at_end || job.shape == nullptr) return;
  const Room room = RoomFor(job.config.run.output_dir);
  const auto needed = static_cast<double>(StateBytes(*job.shape));
  if (needed <= room.free) return;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "NOT ENOUGH DISK SPACE",
                      .where = room.folder,
                      .what = "The weights that are saved at the end take " + ByteText(needed) +
                              "; " + room.Text() + ".",
                      .hint = "Make room there, give another folder (run.output_dir), or save no "
                              "weights\n(checkpoint.save_at_end false).",
                      .page = "not-enough-disk-space"});
}

std::string DiskWarning(const Job& job) {
  const CheckpointConfig& checkpoint = job.config.checkpoint;
  if (checkpoint.save_steps.amount <= 0 || job.shape == nullptr) return "";
  const double copies = checkpoint.save_only_model ? 1 : 1 + StateCopies(job.config.optimizer);
  const double each = static_cast<double>(StateBytes(*job.shape)) * copies;
  int64_t most = std::max<int64_t>(1, checkpoint.save_total_limit) + 1;  // one is being written
  if (!checkpoint.save_best.empty()) most += std::max<int64_t>(1, checkpoint.save_total_limit_best);
  const Room room = RoomFor(checkpoint.dir.empty() ? job.config.run.output_dir : checkpoint.dir);
  if (each * static_cast<double>(most) <= room.free) return "";
  return "checkpoints: there are up to " + std::to_string(most) + " at a time, of " +
         ByteText(each) + " each; " + room.Text() +
         ".\nMake room, lower checkpoint.save_total_limit, or name another folder: checkpoint.dir.";
}

void CheckNeeds(const Job& job, const RankInfo& rank) {
  CheckMemory(job, rank);
  if (rank.rank == 0) CheckDisk(job);
}

}  // namespace ddprun::trainer
