#include "trainer/loop/options_of.h"

#include <algorithm>

#include "base/check.h"
#include "trainer/config/slot.h"
#include "trainer/models/pretrained.h"

namespace ddprun::trainer {

LossOptions LossOptionsOf(const TrainingConfig& config) {
  LossOptions options;
  switch (config.loss) {
    case Loss::kAuto:
      break;
    case Loss::kCrossEntropy:
      options.kind = LossOptions::Kind::kCrossEntropy;
      break;
    case Loss::kMse:
      options.kind = LossOptions::Kind::kMse;
      break;
    case Loss::kCausalLm:
      options.kind = LossOptions::Kind::kCausalLm;
      break;
  }
  options.label_smoothing = config.label_smoothing;
  return options;
}

ModelOptions ModelOptionsOf(const Config& config) {
  const ModelConfig& model = config.model;
  ModelOptions options;
  options.type = Word(model.type);
  options.hidden_size = model.hidden_size;
  options.num_hidden_layers = model.num_hidden_layers;
  options.num_attention_heads = model.num_attention_heads;
  options.intermediate_size = model.intermediate_size;
  options.vocab_size = model.vocab_size;
  options.max_positions = model.max_position_embeddings;
  options.dropout = model.dropout;
  options.attention_dropout = model.attention_dropout;
  options.classifier_dropout = model.classifier_dropout;
  options.type_vocab_size = model.type_vocab_size;
  options.num_labels = model.num_labels;
  options.tie_word_embeddings = model.tie_word_embeddings;
  options.num_key_value_heads = model.num_key_value_heads;
  options.head_dim = model.head_dim;
  if (model.type == ModelType::kLlama) options.norm_epsilon = model.rms_norm_eps;
  options.rope_theta = model.rope_theta;
  options.rope_scaling = ReadRopeScaling(model.rope_scaling.text);
  options.attention_bias = model.attention_bias;
  options.mlp_bias = model.mlp_bias;
  options.layer_sizes = model.layer_sizes;
  options.channels = model.channels;
  options.path = model.path;
  options.json = model.options.text;
  options.loss = LossOptionsOf(config.training);
  switch (model.activation) {
    case Activation::kRelu:
      options.activation = "relu";
      break;
    case Activation::kGelu:
      options.activation = "gelu";
      break;
    case Activation::kNone:
      options.activation = "none";
      break;
  }
  return options;
}

OptimizerOptions OptimizerOptionsOf(const OptimizerConfig& config) {
  OptimizerOptions options;
  switch (config.type) {
    case OptimizerType::kAdamW:
      options.kind = OptimizerOptions::Kind::kAdamW;
      break;
    case OptimizerType::kAdam:
      options.kind = OptimizerOptions::Kind::kAdam;
      break;
    case OptimizerType::kSgd:
      options.kind = OptimizerOptions::Kind::kSgd;
      break;
  }
  options.betas = config.betas;
  options.eps = config.eps;
  options.momentum = config.momentum;
  return options;
}

ScheduleOptions ScheduleOptionsOf(const SchedulerConfig& config, int64_t total_steps) {
  ScheduleOptions options;
  switch (config.lr_scheduler_type) {
    case LrSchedulerType::kConstant:
      options.shape = ScheduleOptions::Shape::kConstant;
      break;
    case LrSchedulerType::kLinear:
      options.shape = ScheduleOptions::Shape::kLinear;
      break;
    case LrSchedulerType::kCosine:
      options.shape = ScheduleOptions::Shape::kCosine;
      options.min_lr_ratio = config.min_lr_ratio;
      break;
  }
  options.warmup = config.warmup_steps;
  options.warmup_from_zero = config.warmup_from_zero;
  options.total_steps = total_steps;
  return options;
}

namespace {

std::shared_ptr<CommHook> CommHookOf(const StrategyConfig& config) {
  switch (config.comm_hook) {
    case CommHookType::kNone:
      break;
    case CommHookType::kFp16:
      return MakeCompressHook(at::kHalf);
    case CommHookType::kBf16:
      return MakeCompressHook(at::kBFloat16);
    case CommHookType::kPowerSgd:
      return MakePowerSgdHook(
          {.rank = config.power_sgd_rank, .start_step = config.power_sgd_start_step});
    case CommHookType::kPostLocalSgd:
      return MakePostLocalSgdHook({.start_step = config.post_local_sgd_start_step});
  }
  return nullptr;
}

}  // namespace

DataParallelOptions DataParallelOptionsOf(const StrategyConfig& config) {
  DataParallelOptions options{
      .sync = ModuleSync::OptionsOf({.bucket_cap_mb = config.bucket_cap_mb.number,
                                     .first_bucket_mb = config.first_bucket_mb,
                                     .tune_buckets = config.bucket_cap_mb.automatic,
                                     .overlap = config.overlap,
                                     .find_unused_parameters = config.find_unused_parameters,
                                     .static_graph = config.static_graph,
                                     .check_finite = config.check_finite,
                                     .broadcast_buffers = config.broadcast_buffers,
                                     .comm_hook = CommHookOf(config)}),
      .update_in_backward = config.optimizer_in_backward};
  if (config.comm_hook == CommHookType::kPostLocalSgd) {
    options.averaging = {.period = config.post_local_sgd_period,
                         .warmup_steps = config.post_local_sgd_start_step};
  }
  return options;
}

AllReduceAlgorithm AlgorithmOf(const CommConfig& config) {
  switch (config.algorithm) {
    case Algorithm::kDirect:
      break;
    case Algorithm::kReduceBroadcast:
      return AllReduceAlgorithm::kReduceBroadcast;
    case Algorithm::kAllToAll:
      return AllReduceAlgorithm::kAllToAll;
    case Algorithm::kRing:
      return AllReduceAlgorithm::kRing;
  }
  return AllReduceAlgorithm::kDirect;
}

std::vector<Metric> MetricsOf(const EvaluationConfig& config) {
  const auto words = WordsOf(Metric{});
  std::vector<Metric> metrics;
  for (const std::string& name : config.metrics) {
    const auto word = std::find(words.begin(), words.end(), name);
    DDPRUN_CHECK(word != words.end());  // ReadConfig has looked
    metrics.push_back(static_cast<Metric>(word - words.begin()));
  }
  return metrics;
}

LoaderOptions TrainLoaderOptions(const Config& config, int64_t epoch) {
  LoaderOptions options = ValidationLoaderOptions(config);
  options.batch_size = config.training.per_device_train_batch_size;
  options.drop_last = config.data.dataloader_drop_last;
  options.epoch = epoch;
  return options;
}

LoaderOptions ValidationLoaderOptions(const Config& config) {
  const DataConfig& data = config.data;
  return {.batch_size = config.training.per_device_eval_batch_size,
          .prefetch = data.dataloader_num_workers * data.dataloader_prefetch_factor,
          .threads = data.dataloader_num_workers};
}

}  // namespace ddprun::trainer
