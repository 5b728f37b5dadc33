// Sections "strategy" and "comm" of a config; see config.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ddprun/options.h>

namespace ddprun::trainer {

enum class StrategyType {
  kAuto,
  kSingle,
  kDdp,
  kDp,
  kModelParallel,
  kPipeline,
  kTensorParallel,
  kZero1,
  kZero2,
  kZero3
};
enum class PipelineSchedule { kGpipe, k1F1B };
enum class DpLoss { kGathered, kParallel };
enum class CommHookType { kNone, kFp16, kBf16, kPowerSgd, kPostLocalSgd };

// A number, or the word "auto".
struct NumberOrAuto {
  double number = 0;
  bool automatic = false;
};

struct StrategyConfig {
  StrategyType type = StrategyType::kAuto;      // auto: ddp for several (virtual) ranks
  NumberOrAuto bucket_cap_mb = {.number = 25};  // MiB
  double first_bucket_mb = 1;                   // MiB
  Overlap overlap = Overlap::kBackward;
  bool optimizer_in_backward = false;
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool gradient_as_bucket_view = true;  // only true; for configs from PyTorch
  bool broadcast_buffers = true;
  bool check_finite = false;
  CommHookType comm_hook = CommHookType::kNone;
  int64_t power_sgd_rank = 1;
  int64_t power_sgd_start_step = 1000;
  int64_t post_local_sgd_start_step = 100;
  int64_t post_local_sgd_period = 4;
  // Ranks that divide each layer, or the stages, of a replica of the model (mesh.h). 0: all ranks
  // if strategy.type has this name, else 1.
  int64_t tensor_parallel_size = 0;
  int64_t pipeline_parallel_size = 0;
  int64_t shard_size = 0;  // zero: data ranks that divide one replica's state; 0: all
  PipelineSchedule pipeline_schedule = PipelineSchedule::k1F1B;
  int64_t pipeline_micro_batches = 0;     // of each micro-batch of accumulation; 0: 2 per stage
  std::vector<int64_t> layers_per_stage;  // empty: balanced by measured cost
  std::vector<std::string> devices;       // of one process: dp, model_parallel, pipeline
  int64_t output_device = 0;              // dp: index in devices
  DpLoss loss = DpLoss::kGathered;        // dp
};

struct CommConfig {
  int64_t init_timeout_seconds = 300;  // until the first step is done
  int64_t train_timeout_seconds = 100;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kDirect;  // of all-reduces
  double emulated_link = 0;                                    // Gbit/s; 0 means none
};

}  // namespace ddprun::trainer
