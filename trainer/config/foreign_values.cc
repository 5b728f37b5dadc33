// Words of other tools for the values of keys.
#include <vector>

#include "base/text.h"
#include "trainer/config/foreign_names.h"

namespace ddprun::trainer {

namespace {

// Words of other tools for a value of the key `path`, with ddprun's word or what to do without it.
struct ForeignValues {
  std::string_view path;
  std::string_view names;  // in lower case, with blanks between them
  std::string_view word;
  std::string_view hint = {};
};

constexpr std::string_view kNoModel =
    "Not built in. A model defined in Python can be trained as TorchScript, one in C++ as a "
    "plugin:\n"
    "docs/torchscript.md, docs/plugins.md.";

constexpr ForeignValues kForeignValues[] = {
    {"model.type", "gpt2 gpt_2 nanogpt gpt2_small openai_gpt", "gpt"},
    {"model.type", "bert_base bert_base_uncased bert_base_cased bert_large_uncased", "bert",
     "The folder with its weights is model.name_or_path."},
    {"model.type", "llama2 llama3 llama_2 llama_3 tinyllama", "llama"},
    {"model.type", "fc dnn feedforward multilayer_perceptron toymodel toy", "mlp"},
    {"model.type", "linear_regression logistic_regression logistic", "linear"},
    {"model.type", "convnet lenet simple_cnn conv", "cnn"},
    {"model.type", "resnet resnet_18", "resnet18"},
    {"model.type", "resnet_34", "resnet34"},
    {"model.type", "resnet_50", "resnet50"},
    {"model.type", "resnet_101", "resnet101"},
    {"model.type", "jit script ts torch_script", "torchscript"},
    {"model.type", "custom cpp", "plugin"},
    {"model.type",
     "roberta distilbert albert deberta electra t5 bart gpt_neo gpt_neox gptj opt bloom falcon "
     "mistral "
     "mixtral qwen qwen2 qwen3 gemma gemma2 phi phi3 deepseek vit swin convnext efficientnet "
     "mobilenet vgg16 vgg alexnet densenet resnet152 resnext wide_resnet unet lstm gru rnn "
     "transformer mamba whisper wav2vec2 clip diffusion vae gan",
     "", kNoModel},
    {"model.activation", "linear identity no false", "none"},
    {"model.activation", "gelu_new gelu_tanh gelu_pytorch_tanh", "gelu"},
    {"model.activation", "tanh sigmoid silu swish elu selu leaky_relu leakyrelu mish softplus", "",
     "Not there yet."},
    {"data.format", "txt plain raw textfile", "text"},
    {"data.format", "json json_lines jsonlines ndjson", "jsonl"},
    {"data.format", "bin npy_tokens token", "tokens"},
    {"data.format", "tsv", "csv",
     "With data.delimiter \"\\t\"; labelled texts in columns are "
     "\"text_classification\"."},
    {"data.format", "glue mnli multi_nli sst2 classification sequence_classification",
     "text_classification"},
    {"data.format", "mnist fashion_mnist fashionmnist ubyte", "idx"},
    {"data.format", "cifar cifar_10", "cifar10"},
    {"data.format", "cifar_100", "cifar100"},
    {"data.format", "imagefolder images image imagenet", "image_folder"},
    {"data.format", "synthetic fake dummy randn", "random"},
    {"data.format",
     "parquet arrow npy npz hdf5 h5 tfrecord webdataset wds mds lmdb huggingface hf datasets "
     "safetensors pickle xlsx sql",
     "", "Not there yet. Write the rows as JSON lines or CSV; docs/data.md has the formats."},
    {"training.precision", "32 32_true float32 full float no false highest", "fp32"},
    {"training.precision", "bf16_mixed bfloat16 amp_bf16 bf16_amp mixed true", "bf16"},
    {"training.precision", "bf16_true", "bf16", "Weights and optimizer stay in float32."},
    {"training.precision", "16 16_mixed float16 half amp_fp16 fp16_mixed", "fp16"},
    {"training.precision", "16_true", "fp16", "Weights and optimizer stay in float32."},
    {"training.precision", "64 64_true fp64 float64 double fp8 int8 transformer_engine", "",
     "Not there yet."},
    {"training.precision", "tf32", "fp32", "training.tf32 true makes it TF32."},
    {"training.matmul_engine", "mkl openblas blas", "default"},
    {"training.matmul_engine", "mkldnn dnnl", "onednn"},
    {"training.loss",
     "ce crossentropy crossentropyloss nll nll_loss nllloss softmax "
     "categorical_crossentropy sparse_categorical_crossentropy",
     "cross_entropy"},
    {"training.loss", "mseloss mse_loss l2 mean_squared_error squared_error", "mse"},
    {"training.loss", "clm lm language_modeling forcausallm", "causal_lm"},
    {"training.loss",
     "bce bceloss bce_with_logits bcewithlogitsloss l1 l1loss mae huber smooth_l1 "
     "smoothl1loss kl kl_div focal hinge mlm contrastive triplet ctc",
     "",
     "Not there yet. A model of your own may compute any loss: docs/torchscript.md, "
     "docs/plugins.md."},
    {"optimizer.type",
     "adamw_torch adamw_torch_fused adamw_hf adamw_torch_xla adamw_apex_fused "
     "fused_adamw adamw_fused adam_w fusedadam",
     "adamw"},
    {"optimizer.type", "adam_torch fused_adam torch_adam", "adam"},
    {"optimizer.type", "momentum sgd_momentum", "sgd", "With optimizer.momentum."},
    {"optimizer.type",
     "adafactor lamb lars adadelta adamax nadam radam rmsprop muon "
     "sophia shampoo soap lbfgs rprop adan prodigy schedule_free_adamw adamw_8bit adamw_bnb_8bit "
     "paged_adamw paged_adamw_8bit paged_adamw_32bit galore_adamw onebitadam",
     "", "Not there yet: \"adamw\", \"adam\", \"sgd\", \"adagrad\" and \"lion\" are."},
    {"optimizer.type", "lion_32bit fused_lion", "lion"},
    {"optimizer.type", "nesterov sgd_nesterov", "sgd", "With optimizer.nesterov."},
    {"scheduler.lr_scheduler_type",
     "cosine_with_warmup cosineannealinglr cosine_annealing "
     "warmupcosinelr cosinelr",
     "cosine"},
    {"scheduler.lr_scheduler_type", "cosine_with_min_lr", "cosine", "With scheduler.min_lr_ratio."},
    {"scheduler.lr_scheduler_type", "linear_with_warmup linearlr warmupdecaylr linear_decay",
     "linear"},
    {"scheduler.lr_scheduler_type", "constant_with_warmup warmuplr constantlr none no false fixed",
     "constant", "scheduler.warmup_steps warms up any of them."},
    {"scheduler.lr_scheduler_type",
     "cosine_with_hard_restarts cosine_hard_restarts cosine_restarts", "cosine_with_restarts",
     "With scheduler.num_cycles."},
    {"scheduler.lr_scheduler_type", "poly polynomial_decay polynomiallr", "polynomial",
     "With scheduler.power."},
    {"scheduler.lr_scheduler_type", "inverse_square_root inv_sqrt noam", "inverse_sqrt"},
    {"scheduler.lr_scheduler_type", "wsd trapezoidal", "warmup_stable_decay",
     "With scheduler.decay_steps."},
    {"scheduler.lr_scheduler_type", "steplr step_lr", "step", "With scheduler.step_size."},
    {"scheduler.lr_scheduler_type", "multistep multisteplr multi_step_lr piecewise", "multi_step",
     "With scheduler.milestones."},
    {"scheduler.lr_scheduler_type", "onecycle onecyclelr one_cycle_lr 1cycle", "one_cycle",
     "With scheduler.pct_start."},
    {"scheduler.lr_scheduler_type", "reducelronplateau reduce_on_plateau plateau",
     "reduce_lr_on_plateau", "With scheduler.plateau_patience."},
    {"scheduler.lr_scheduler_type",
     "cosine_warmup_with_min_lr exponential exponentiallr cyclic cosineannealingwarmrestarts sqrt",
     "", "It is not there yet. docs/config.md lists the schedules."},
    {"run.device", "gpu gpus nvidia", "cuda",
     "Each rank takes the GPU with its local rank's number; CUDA_VISIBLE_DEVICES chooses."},
    {"run.device", "mps xpu tpu hpu npu rocm hip", "",
     "Not there yet: \"cuda\", \"cpu\" and \"auto\" are."},
    {"run.device", "host none false", "cpu"},
    {"strategy.type",
     "ddp_spawn ddp_fork ddp_notebook distributed distributeddataparallel multi_gpu "
     "multi_cpu horovod data_parallel_ddp",
     "ddp"},
    {"strategy.type", "ddp_find_unused_parameters_true", "ddp",
     "With strategy.find_unused_parameters true."},
    {"strategy.type", "ddp_find_unused_parameters_false", "ddp"},
    {"strategy.type", "ddp_static_graph", "ddp", "With strategy.static_graph true."},
    {"strategy.type", "single_device no none false", "single"},
    {"strategy.type", "data_parallel dataparallel", "dp"},
    {"strategy.type", "deepspeed zero", "",
     "Name what is sharded: \"zero1\" for optimizer state, \"zero2\" for gradients, too, "
     "\"zero3\" for parameters, too."},
    {"strategy.type", "deepspeed_stage_1 zero_1 zero_redundancy_optimizer", "zero1"},
    {"strategy.type", "deepspeed_stage_2 zero_2 shard_grad_op", "zero2"},
    {"strategy.type", "deepspeed_stage_3 zero_3 fsdp fsdp2 fsdp_native full_shard", "zero3"},
    {"strategy.type", "hybrid_shard", "zero3",
     "With strategy.shard_size, the ranks that share one replica."},
    {"strategy.type", "deepspeed_stage_2_offload deepspeed_stage_3_offload", "",
     "State stays on the device. \"zero3\" shards it over the ranks."},
    {"strategy.type", "hybrid 2d 3d nd", "",
     "Name one, and give the others' sizes: strategy.tensor_parallel_size, "
     "strategy.pipeline_parallel_size (docs/strategies.md)."},
    {"strategy.type", "pp pipeline_parallel gpipe 1f1b", "pipeline"},
    {"strategy.type", "modelparallel", "model_parallel"},
    {"strategy.type", "tp megatron", "tensor_parallel"},
    {"strategy.overlap", "true yes on", "backward"},
    {"strategy.overlap", "false no off", "none"},
    {"strategy.comm_hook", "fp16_compress fp16_compress_hook float16", "fp16"},
    {"strategy.comm_hook", "bf16_compress bf16_compress_hook bfloat16", "bf16"},
    {"strategy.comm_hook", "powersgd power_sgd_hook powersgd_hook batched_power_sgd", "power_sgd"},
    {"strategy.comm_hook", "post_localsgd post_localsgd_hook local_sgd localsgd", "post_local_sgd"},
    {"strategy.comm_hook", "allreduce allreduce_hook no false", "none"},
    {"comm.algorithm", "ring_allreduce", "ring"},
    {"comm.algorithm", "nccl gloo mpi ucx auto", "direct"},
    {"checkpoint.save_steps", "epoch epochs each_epoch", "1 epoch"},
    {"checkpoint.save_steps", "no never none false", "",
     "For no checkpoint before the end write 0."},
    {"checkpoint.save_steps", "true best", "", "How often? checkpoint.save_best keeps the best."},
    {"evaluation.eval_steps", "epoch epochs each_epoch", "1 epoch"},
    {"evaluation.eval_steps", "no never none false", "",
     "For one evaluation, at the end, write 0."},
    {"checkpoint.save_best", "val_loss eval_loss validation_loss", "loss"},
    {"checkpoint.save_best", "acc eval_accuracy val_acc val_accuracy", "accuracy"},
    {"evaluation.metrics", "acc accuracy_score categorical_accuracy top1", "accuracy"},
    {"evaluation.metrics", "precision_score", "precision"},
    {"evaluation.metrics", "recall_score sensitivity", "recall"},
    {"evaluation.metrics", "f1_score f1_binary", "f1"},
    {"evaluation.metrics", "macro_f1 f1macro", "f1_macro"},
    {"evaluation.metrics", "matthews matthews_correlation matthews_corrcoef", "mcc"},
    {"evaluation.metrics", "confusion confusionmatrix classification_report by_class",
     "confusion_matrix"},
    {"evaluation.metrics", "auc auroc rocauc roc_auc_score", "roc_auc"},
    {"evaluation.metrics", "ppl", "perplexity"},
    {"evaluation.metrics", "mean_squared_error l2", "mse"},
    {"evaluation.metrics", "root_mean_squared_error", "rmse"},
    {"evaluation.metrics", "mean_absolute_error l1", "mae"},
    {"evaluation.metrics", "r2_score r_squared", "r2"},
    {"evaluation.metrics", "loss val_loss eval_loss validation_loss", "",
     "The validation loss is always there."},
    {"evaluation.metrics",
     "average_precision bleu rouge mape balanced_accuracy "
     "top5 top_5 pearson spearman pearsonr spearmanr kappa iou exact_match wer f1_micro "
     "f1_weighted",
     "", "Not there yet."},
    {"report.progress_bar", "true yes tqdm rich", "on"},
    {"report.progress_bar", "false no none", "off"},
};

}  // namespace

std::optional<std::string> ForeignValueHint(std::string_view path, std::string_view value) {
  for (const ForeignValues& row : kForeignValues) {
    if (row.path != path || !HasName(row.names, value)) continue;
    if (row.word.empty()) return std::string(row.hint);
    const std::string note = row.hint.empty() ? "" : " " + std::string(row.hint);
    return "Here that is \"" + std::string(row.word) + "\"." + note;
  }
  return std::nullopt;
}

std::string ChoiceHint(std::string_view path,
                       std::string_view value,
                       std::span<const std::string_view> words) {
  if (const auto known = ForeignValueHint(path, value)) return *known;
  const auto nearest = FindNearest(value, std::vector<std::string>(words.begin(), words.end()));
  return nearest ? "Did you mean \"" + *nearest + "\"?" : "";
}

}  // namespace ddprun::trainer
