#include "trainer/job/options_of.h"

#include <algorithm>

#include "base/check.h"
#include "base/metric_order.h"
#include "trainer/config/parallel_dims.h"
#include "trainer/config/slot.h"
#include "trainer/models/pretrained.h"

namespace ddprun::trainer {

namespace {

// Returns the ends of a search as factors of optimizer.learning_rate.
std::vector<double> RangeOf(const Config& config) {
  std::vector<double> ends = config.scheduler.range_test;
  for (double& end : ends) end /= config.optimizer.learning_rate;
  return ends;
}

// Returns options with the keys that all transformers share.
template <typename Options>
Options TransformerOf(const ModelConfig& model) {
  Options options;
  options.vocab_size = model.vocab_size;
  options.max_position_embeddings = model.max_position_embeddings;
  options.hidden_size = model.hidden_size;
  options.num_hidden_layers = model.num_hidden_layers;
  options.num_attention_heads = model.num_attention_heads;
  options.intermediate_size = model.intermediate_size;
  options.attention_dropout = model.attention_dropout;
  return options;
}

GptOptions GptOf(const ModelConfig& model) {
  auto gpt = TransformerOf<GptOptions>(model);
  gpt.dropout = model.dropout;
  gpt.embedding_dropout = model.embedding_dropout;
  gpt.tie_word_embeddings = model.tie_word_embeddings;
  return gpt;
}

LlamaOptions LlamaOf(const ModelConfig& model) {
  auto llama = TransformerOf<LlamaOptions>(model);
  llama.num_key_value_heads = model.num_key_value_heads;
  llama.head_dim = model.head_dim;
  llama.rms_norm_eps = model.rms_norm_eps;
  llama.rope_theta = model.rope_theta;
  llama.rope_scaling = ReadRopeScaling(model.rope_scaling.text);
  llama.attention_bias = model.attention_bias;
  llama.mlp_bias = model.mlp_bias;
  llama.tie_word_embeddings = model.tie_word_embeddings;
  return llama;
}

BertOptions BertOf(const ModelConfig& model) {
  auto bert = TransformerOf<BertOptions>(model);
  bert.type_vocab_size = model.type_vocab_size;
  bert.num_labels = model.num_labels;
  bert.dropout = model.dropout;
  bert.classifier_dropout = model.classifier_dropout;
  return bert;
}

}  // namespace

LoraOptions LoraOptionsOf(const Config& config) {
  const TrainingConfig& training = config.training;
  LoraOptions lora{.r = training.lora_r,
                   .alpha = training.lora_alpha,
                   .dropout = training.lora_dropout,
                   .use_rslora = training.use_rslora,
                   .target_modules = training.lora_target_modules};
  if (lora.target_modules.empty()) lora.target_modules = LoraTargets(Word(config.model.type));
  return lora;
}

ModelOptions ModelOptionsOf(const ModelConfig& model) {
  const auto resnet = [&model](int64_t depth) {
    return ResNetOptions{.depth = depth, .num_labels = model.num_labels};
  };
  switch (model.type) {
    case ModelType::kGpt:
      return GptOf(model);
    case ModelType::kLlama:
      return LlamaOf(model);
    case ModelType::kBert:
      return BertOf(model);
    case ModelType::kMlp:
      return MlpOptions{.sizes = model.layer_sizes, .activation = model.activation};
    case ModelType::kLinear:
      return MlpOptions{.activation = Activation::kNone};  // the data decides its sizes
    case ModelType::kCnn:
      return CnnOptions{.channels = model.channels,
                        .hidden_size = model.hidden_size,
                        .num_labels = model.num_labels,
                        .dropout = model.dropout};
    case ModelType::kResNet18:
      return resnet(18);
    case ModelType::kResNet34:
      return resnet(34);
    case ModelType::kResNet50:
      return resnet(50);
    case ModelType::kResNet101:
      return resnet(101);
    case ModelType::kTorchScript:
      return TorchScriptOptions{.path = model.path};
    case ModelType::kPlugin:
      return PluginOptions{.path = model.path, .json = model.options.text};
  }
  DDPRUN_CHECK(false);
}

OptimizerOptions OptimizerOptionsOf(const OptimizerConfig& config) {
  return {.kind = config.type,
          .betas = config.betas,
          .eps = config.eps,
          .momentum = config.momentum,
          .dampening = config.dampening,
          .nesterov = config.nesterov};
}

ScheduleOptions ScheduleOptionsOf(const Config& config, const StepPlan& plan) {
  const SchedulerConfig& scheduler = config.scheduler;
  const LrSchedulerType type = scheduler.lr_scheduler_type;
  const bool to_minimum = type == LrSchedulerType::kCosine ||
                          type == LrSchedulerType::kPolynomial ||
                          type == LrSchedulerType::kWarmupStableDecay;
  return {.shape = type,
          .warmup = scheduler.warmup_steps,
          .warmup_from_zero = scheduler.warmup_from_zero,
          .min_lr_ratio = to_minimum ? scheduler.min_lr_ratio : 0,
          .cycles = scheduler.num_cycles,
          .power = scheduler.power,
          .decay = scheduler.decay_steps,
          .decay_type = scheduler.decay_type,
          .step_size = StepsOf(scheduler.step_size, plan.steps_per_epoch),
          .milestones = scheduler.milestones,
          .gamma = scheduler.gamma,
          .rising_share = scheduler.pct_start,
          .div_factor = scheduler.div_factor,
          .final_div_factor = scheduler.final_div_factor,
          .range = RangeOf(config),
          .total_steps = plan.total_steps};
}

PlateauOptions PlateauOptionsOf(const Config& config) {
  const SchedulerConfig& scheduler = config.scheduler;
  return {.on = scheduler.lr_scheduler_type == LrSchedulerType::kReduceLrOnPlateau,
          .higher_is_better = HigherIsBetter(DecidingMetric(config)),
          .factor = scheduler.plateau_factor,
          .patience = scheduler.plateau_patience,
          .threshold = scheduler.plateau_threshold,
          .cooldown = scheduler.plateau_cooldown,
          .smallest = scheduler.min_lr_ratio};
}

std::string DecidingMetric(const Config& config) {
  return config.checkpoint.save_best.empty() ? "loss" : config.checkpoint.save_best;
}

std::vector<Metric> MetricsOf(const EvaluationConfig& config) {
  const auto words = WordsOf(Metric{});
  std::vector<Metric> metrics;
  for (const std::string& name : config.metrics) {
    const auto word = std::find(words.begin(), words.end(), name);
    DDPRUN_CHECK(word != words.end());  // ReadConfig() has checked it
    metrics.push_back(static_cast<Metric>(word - words.begin()));
  }
  return metrics;
}

std::vector<c10::Device> DevicesOf(const StrategyConfig& config) {
  return {config.devices.begin(), config.devices.end()};
}

std::string DeviceAskedFor(const Config& config) {
  const std::vector<std::string>& devices = config.strategy.devices;
  if (devices.empty()) return config.run.device;
  const bool gpus = std::ranges::any_of(devices, [](const auto& d) { return d != "cpu"; });
  return gpus ? "cuda" : "cpu";
}

LoaderOptions TrainLoaderOptions(const Config& config, int64_t epoch) {
  LoaderOptions options = ValidationLoaderOptions(config);
  options.batch_size =
      config.training.per_device_train_batch_size * ResolveDims(config, 0)->sample_devices();
  options.drop_last = config.data.dataloader_drop_last;
  options.epoch = epoch;
  return options;
}

LoaderOptions ValidationLoaderOptions(const Config& config) {
  const DataConfig& data = config.data;
  return {.batch_size =
              config.training.per_device_eval_batch_size * ResolveDims(config, 0)->sample_devices(),
          .prefetch = data.dataloader_num_workers * data.dataloader_prefetch_factor,
          .threads = data.dataloader_num_workers,
          .class_weights = config.training.class_weights};
}

}  // namespace ddprun::trainer
