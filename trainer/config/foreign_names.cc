#include "trainer/config/foreign_names.h"

#include <algorithm>

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
     "test_steps generate",
     "A run with validation data is evaluated at its end and after every evaluation.eval_steps "
     "steps,\n"
     "and on data.test_files at its end alone.\n"
     "A trained run is used by ddp-trainer evaluate RUN --data FILES, predict and generate."},
    {"fast_dev_run limit_test_batches max_predict_samples",
     "To try a config: --set run.max_steps=2. data.max_train_samples and data.max_eval_samples\n"
     "take a part of the data; tests and predictions take all samples of their files."},
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
    {"lr_decay_rate decay_factor t_max warmup_epochs "
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
     "optimizer.learning_rate_factors has the factors of some parameters: {\"classifier\": 10}.\n"
     "optimizer.weight_decay_factors has those of the weight decay."},
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
    {"auto_find_batch_size auto_scale_batch_size tuner",
     "There is no search for a batch size; ddp-trainer plan says what a batch needs. To compare "
     "runs:\n"
     "ddprun --sweep training.per_device_train_batch_size=16,32"},
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
    {"weighted_sampler weighted_random_sampler",
     "Every epoch has each sample once. data.weight_column (tables) and training.class_weights "
     "make\n"
     "samples count more in the loss."},
    {"l1 l1_reg l1_lambda l1_ratio", "An L1 penalty is not there yet; optimizer.weight_decay is."},
    {"streaming stream iterable iterable_dataset shuffle_buffer buffer_size",
     "The data is files on this machine. There is nothing to switch on for files that are larger "
     "than\n"
     "the memory: \"tokens\" and \"text\" are mapped; \"jsonl\" and \"chat\" are tokenized into a "
     "file."},
    {"pack pack_sequences group_texts",
     "data.packing puts several conversations into a sample. \"text\", \"jsonl\" and \"tokens\" "
     "are cut\n"
     "into blocks of data.max_seq_length tokens, across documents."},
    {"messages conversations prompt_template formatting_func completion_only_loss "
     "assistant_only_loss train_on_inputs",
     "data.format \"chat\" reads conversations as JSON lines with \"messages\", and the loss "
     "counts\n"
     "the answers. Other forms are not there yet: write each text as one string of \"jsonl\"."},
    {"callbacks callback hooks",
     "report.plugin names a shared object whose code is called after steps, evaluations and\n"
     "checkpoints: docs/plugins.md. report.on_event starts a command at the events of a run."},
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

}  // namespace ddprun::trainer
