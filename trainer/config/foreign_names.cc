#include "trainer/config/foreign_names.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace ddprun::trainer {

namespace {

struct WithoutKey {
  std::string_view names;  // in lower case, with blanks between them
  std::string_view hint;
};

// Words of torchrun, accelerate, Hugging Face's TrainingArguments, Lightning, DeepSpeed, nanoGPT,
// llm.c and torchtitan, grouped by purpose.
constexpr WithoutKey kWithoutKey[] = {
    {"nproc_per_node nnodes num_nodes num_processes num_machines machine_rank node_rank n_gpu "
     "n_gpus num_gpus gpus world_size local_rank master_addr master_port main_process_ip "
     "main_process_port rdzv_endpoint rdzv_backend rdzv_id rdzv_conf hostfile "
     "data_parallel_replicate_degree dp_replicate_size ddp_replicate",
     "The command line gives the numbers of ranks and of nodes, as for torchrun:\n"
     "ddprun --nnodes=1 --nproc_per_node=2 train.json"},
    {"max_restarts monitor_interval hang_timeout log_level log_level_replica redirects tee "
     "standalone",
     "That is a flag of ddprun, and it stands before the config: see ddprun --help."},
    {"gpu gpu_ids cuda device_map backend ddp_backend process_group_backend",
     "run.device \"cuda\" trains on GPUs; \"auto\" does so if every rank has a GPU. The rank with "
     "local\n"
     "rank N uses the N-th GPU of CUDA_VISIBLE_DEVICES. GPUs communicate by NCCL, CPUs by shared "
     "memory\n"
     "and UCX. There is nothing else to choose."},
    {"save_on_each_node save_safetensors always_save_checkpoint async_mode async_save "
     "restore_callback_states",
     "There is nothing to choose: checkpoints are safetensors files with the whole state of the "
     "run,\n"
     "and are written in the background. checkpoint.save_steps says how often."},
    {"do_train do_eval do_predict eval_only evaluate_only test_only predict evaluate inference "
     "test_steps eval_on_start num_sanity_val_steps generate",
     "A run with validation data is evaluated at its end and after every evaluation.eval_steps "
     "steps,\n"
     "and on data.test_files at its end alone.\n"
     "A trained run is used by ddp-trainer evaluate RUN --data FILES, predict and generate."},
    {"fast_dev_run overfit_batches limit_train_batches limit_val_batches limit_test_batches "
     "eval_iters max_train_samples max_eval_samples max_predict_samples val_max_steps",
     "Using a part of the data is not there yet. To try a config: --set run.max_steps=2"},
    {"wandb wandb_log "
     "wandb_project enable_wandb use_wandb mlflow comet logger loggers csv_monitor trackers "
     "log_with project_name tracking_uri",
     "report.tensorboard writes files for TensorBoard. For other trackers: scripts/export_run.py\n"
     "RUN --to=wandb, also while the run trains. It reads metrics.jsonl, which every run writes."},
    {"profile profiler profiling enable_profiling wall_clock_breakdown flops_profiler trace "
     "include_num_input_tokens_seen include_tokens_per_second",
     "report.trace_steps, such as [10, 12], writes a trace of these steps. Log lines and "
     "metrics.jsonl\n"
     "have samples per second, time, and the time in which communication was not hidden."},
    {"fp16_opt_level fp16_backend apex loss_scale loss_scaling scaler grad_scaler "
     "half_precision_backend hysteresis min_loss_scale",
     "training.precision \"fp16\" finds the loss scale by itself. training.init_loss_scale is its "
     "first\n"
     "value."},
    {"fp8 float8 quantization load_in_8bit load_in_4bit",
     "training.precision may be \"fp32\", \"bf16\" or \"fp16\"; other number formats are not there "
     "yet."},
    {"fsdp fsdp_config deepspeed deepspeed_config zero_optimization zero zero_stage stage "
     "sharding_strategy reshard_after_forward fsdp_transformer_layer_cls_to_wrap",
     "strategy.type says what is sharded over the ranks. \"zero1\": optimizer state; \"zero2\": "
     "gradients,\n"
     "too; \"zero3\" (FSDP): parameters, too. strategy.shard_size is the number of ranks that hold "
     "one\n"
     "replica."},
    {"offload_optimizer offload_param cpu_offload enable_cpu_offload",
     "State stays on the device. strategy.type \"zero3\" shards it over the ranks."},
    {"context_parallel_degree context_parallel_size expert_parallel_degree sequence_parallel "
     "parallelism_config",
     "Sequences and experts are not sharded: every rank computes whole samples (strategy.type "
     "\"ddp\")."},
    {"gradient_checkpointing_kwargs selective_ac_option recompute_method recompute_num_layers",
     "There is nothing to choose: training.gradient_checkpointing true recomputes every block."},
    {"amsgrad maximize centered rho lr_decay initial_accumulator_value",
     "amsgrad, RMSprop and such variants are not there yet."},
    {"adafactor rmsprop",
     "optimizer.type may be \"adamw\", \"adam\", \"sgd\", \"adagrad\" or \"lion\"."},
    {"fused foreach capturable optim_args implementation torch_adam adam_w_mode",
     "There is nothing to choose: optimizers are always fused. Remove the key."},
    {"lr_scheduler_kwargs", "Each is a key of its own: scheduler.num_cycles, power, decay_steps."},
    {"num_stable_steps stable_steps",
     "The learning rate is stable from the warmup until scheduler.decay_steps before the end. "
     "Remove the key."},
    {"milestones lr_decay_rate decay_factor t_max warmup_epochs "
     "warmup_min_lr warmup_type warmup_start_lr cycle_momentum t_0 t_mult min_lr_schedule "
     "start_factor end_factor lr_lambda",
     "It is not there yet. scheduler.lr_scheduler_type names the shapes that are."},
    {"lr_decay_iters lr_decay_steps total_steps_for_decay",
     "The learning rate falls over the whole run, whose length is run.max_steps or "
     "run.max_epochs.\n"
     "Remove the key."},
    {"average_tokens_across_devices loss_reduction reduction",
     "There is nothing to choose: the loss is the mean over all predictions of all ranks and\n"
     "micro-batches. Remove the key."},
    {"logging_first_step log_on_each_node",
     "There is nothing to choose: rank 0 logs the first step, the last step, and every\n"
     "report.logging_steps steps. Remove the key."},
    {"params",
     "The keys of DeepSpeed's \"params\" stand in the section itself, as optimizer.learning_rate "
     "and\n"
     "optimizer.betas do."},
    {"pin_memory dataloader_pin_memory persistent_workers dataloader_persistent_workers "
     "multiprocessing_context non_blocking",
     "There is nothing to choose: loader threads share memory with the training. Remove the key."},
    {"compile torch_compile torch_compile_backend torch_compile_mode dynamo_backend "
     "dynamo_config jit_mode_eval use_ipex",
     "There is no compiler, so there is nothing to switch on. Remove the key."},
    {"swa swa_lrs swa_epoch_start",
     "Averages of equal weights are not there yet; optimizer.ema_decay keeps exponential ones."},
    {"lora use_lora lora_config use_peft peft peft_config finetuning_type peft_type qlora use_dora "
     "lora_bias modules_to_save lora_modules_to_save init_lora_weights rank_pattern alpha_pattern",
     "LoRA is on if training.lora_r is above 0, such as 8. With it go training.lora_alpha, "
     "lora_dropout,\n"
     "lora_target_modules and use_rslora. peft's other options and QLoRA are not there yet."},
    {"llrd layerwise_lr_decay layer_decay param_groups parameter_groups classifier_lr head_lr "
     "backbone_lr",
     "optimizer.learning_rate_factors has the factors of some parameters: {\"classifier\": 10}."},
    {"freeze_backbone freeze_encoder freeze_embeddings freeze_base unfreeze trainable_layers "
     "requires_grad",
     "training.freeze has the words of names whose parameters are not trained: [\"embeddings\", "
     "\"encoder\"]."},
    {"push_to_hub hub_model_id hub_token hub_strategy hub_private_repo",
     "ddprun sends nothing to a hub. The folder model/ of a run can be uploaded as it is."},
    {"deterministic full_determinism use_deterministic_algorithms benchmark cudnn_benchmark "
     "enable_full_determinism",
     "There is nothing to switch on: the same config with the same ranks gives the same numbers, "
     "unless\n"
     "training.matmul_engine or strategy.bucket_cap_mb is \"auto\". Remove the key."},
    {"uneven_inputs even_batches split_batches dispatch_batches ignore_data_skip join",
     "All ranks always get the same number of samples. data.dataloader_drop_last and\n"
     "data.sampler_drop_last decide about the rest."},
    {"auto_find_batch_size auto_lr_find auto_scale_batch_size lr_find lr_finder find_lr tuner "
     "lr_range_test",
     "There is no search for batch size or learning rate. To compare runs:\n"
     "ddprun --sweep optimizer.learning_rate=1e-4,1e-3"},
    {"bias use_bias",
     "GPT-2 and BERT have biases, as in transformers. \"llama\" has model.attention_bias and\n"
     "model.mlp_bias."},
    {"act_fn attn_implementation attention_type use_flash_attention flash_attention "
     "layer_norm_eps layer_norm_epsilon",
     "model.type decides this, or config.json of model.name_or_path."},
    {"initializer_range init_std weight_init initializer",
     "Another spread of fresh weights is not there yet. \"bert\", \"gpt\" and \"llama\" begin with "
     "0.02, as in\n"
     "transformers; other models begin as PyTorch's layers do."},
    {"class_weights class_weight pos_weight sample_weight sample_weights loss_weights "
     "weighted_loss weighted_sampler balanced",
     "Weights of classes or samples are not there yet: each counts the same in the loss. A model "
     "of\n"
     "your own may compute any loss: docs/torchscript.md, docs/plugins.md."},
    {"l1 l1_reg l1_lambda l1_ratio", "An L1 penalty is not there yet; optimizer.weight_decay is."},
    {"streaming stream iterable iterable_dataset shuffle_buffer buffer_size",
     "Streaming is not there yet: the data is files on this machine. Token files, and text that is "
     "read\n"
     "by bytes, are mapped and not read whole. ddp-trainer tokenize makes token files."},
    {"packing pack sample_packing pack_sequences eval_packing group_texts",
     "There is nothing to switch on: \"text\", \"jsonl\" and \"tokens\" are cut into blocks of\n"
     "data.max_seq_length tokens, across documents. Samples of \"text_classification\" are "
     "padded."},
    {"messages conversations prompt_template formatting_func completion_only_loss "
     "assistant_only_loss train_on_inputs",
     "data.format \"chat\" reads conversations as JSON lines with \"messages\", and the loss "
     "counts\n"
     "the answers. Other forms are not there yet: write each text as one string of \"jsonl\"."},
    {"callbacks callback hooks",
     "Callbacks in the process are not there yet. report.on_event starts a command at the events "
     "of\n"
     "a run. A program with its own loop uses the library: examples/ddp_program."},
};

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
    {"scheduler.lr_scheduler_type", "reducelronplateau reduce_on_plateau plateau",
     "reduce_lr_on_plateau", "With scheduler.plateau_patience."},
    {"scheduler.lr_scheduler_type",
     "cosine_warmup_with_min_lr multistep multisteplr exponential exponentiallr onecycle "
     "onecyclelr cyclic cosineannealingwarmrestarts sqrt",
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
    {"evaluation.metrics", "f1_score f1_binary", "f1"},
    {"evaluation.metrics", "macro_f1 f1macro", "f1_macro"},
    {"evaluation.metrics", "matthews matthews_correlation matthews_corrcoef", "mcc"},
    {"evaluation.metrics", "ppl", "perplexity"},
    {"evaluation.metrics", "mean_squared_error l2", "mse"},
    {"evaluation.metrics", "mean_absolute_error l1", "mae"},
    {"evaluation.metrics", "loss val_loss eval_loss validation_loss", "",
     "The validation loss is always there."},
    {"evaluation.metrics",
     "precision recall auc auroc roc_auc average_precision bleu rouge r2 rmse mape "
     "top5 top_5 pearson spearman pearsonr spearmanr kappa iou exact_match wer f1_micro "
     "f1_weighted",
     "", "Not there yet."},
    {"report.progress_bar", "true yes tqdm rich", "on"},
    {"report.progress_bar", "false no none", "off"},
};

}  // namespace

bool HasName(std::string_view names, std::string_view name) {
  if (name.find(' ') != name.npos) return false;
  const auto between_blanks = [](std::string_view text) {
    std::string result = " " + ToAsciiLower(text) + " ";
    std::ranges::replace(result, '-', '_');
    return result;
  };
  return between_blanks(names).find(between_blanks(name)) != std::string::npos;
}

std::optional<std::string> WithoutKeyHint(std::string_view name) {
  for (const WithoutKey& row : kWithoutKey) {
    if (HasName(row.names, name)) return std::string(row.hint);
  }
  return std::nullopt;
}

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
