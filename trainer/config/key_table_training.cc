// Keys of the run and of training.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

std::vector<Key> RunKeys() {
  return {
      {.DDPRUN_KEY(run, name),
       .meaning = "Label of the run and name of its folder.",
       .derived_default = "date and time of the start",
       .aliases = {{"run_name", "Hugging Face"},
                   {"experiment_name", "MLflow"},
                   {"wandb_run_name", "nanoGPT"},
                   {"job_name", "DeepSpeed"}}},
      {.DDPRUN_KEY(run, output_dir),
       .meaning = "Folder for all files of the run, relative to the working directory; `{name}` "
                  "stands for run.name. An existing folder is kept: the new one gets a number at "
                  "its end.",
       .aliases = {{"default_root_dir", "Lightning"},
                   {"dump_folder", "torchtitan"},
                   {"out_dir", "nanoGPT"},
                   {"save_dir output_path", "PyTorch examples"},
                   {"save_folder", "Composer"},
                   {"work_dir", "MMEngine"}}},
      {.DDPRUN_KEY(run, seed),
       .meaning = "Seed of weights, dropout and, without data.data_seed, of the sample order.",
       .range = AtLeast(0),
       .aliases = {{"seed_everything", "Lightning"},
                   {"manual_seed", "PyTorch"},
                   {"random_seed", "PyTorch examples"},
                   {"random_state", "scikit-learn"}}},
      {.DDPRUN_KEY(run, device),
       .meaning = "The device of a rank: \"cpu\"; \"cuda\", the GPU with its local rank's number "
                  "(docs/gpu.md); \"cuda:0\", that GPU, shared by all ranks of the machine; or "
                  "\"auto\", GPUs if every rank has one, else the CPU.",
       .aliases = {{"accelerator", "Lightning"},
                   {"use_cpu no_cuda use_cuda use_mps_device", "Hugging Face",
                    "Instead of true or false write \"cpu\" or \"auto\"."}}},
      {.DDPRUN_KEY(run, max_steps),
       .meaning = "Length of the run; it overrides run.max_epochs. -1: as many as run.max_epochs "
                  "makes. 0 is refused.",
       .unit = "optimizer steps",
       .range = AtLeast(-1),
       .aliases = {{"steps", "torchtitan"},
                   {"max_iters", "nanoGPT"},
                   {"num_train_steps max_train_steps num_training_steps", "Hugging Face"},
                   {"total_steps total_num_steps", "DeepSpeed"},
                   {"num_steps max_iterations iterations", "PyTorch examples"},
                   {"train_iters", "Megatron"},
                   {"num_iterations", "llm.c"}}},
      {.DDPRUN_KEY(run, max_epochs),
       .meaning = "Length of the run in passes over the training data; fractions are allowed.",
       .unit = "epochs",
       .range = Above(0),
       .aliases = {{"num_train_epochs", "Hugging Face"},
                   {"epochs num_epochs n_epochs", "PyTorch examples"},
                   {"after-epochs", "Marian"},
                   {"max_duration", "Composer"}}},
  };
}

// Keys of runs that are resumed, stopped or recovered.
std::vector<Key> StartKeys() {
  return {
      {.DDPRUN_KEY(run, max_time),
       .meaning =
           "Ends the run after this time, with a checkpoint and exit code 75. 0: no limit, but "
           "a run in a SLURM job ends before the job.",
       .range = AtLeast(0),
       .counted = CountedIn::kTime,
       .aliases = {{"time_limit", "SLURM"},
                   {"max_duration_seconds max_hours", "PyTorch examples", "With its unit."}}},
      {.DDPRUN_KEY(run, resume),
       .meaning = "What a run resumes from. \"job\": restarts and requeues of a job resume from "
                  "its newest checkpoint; a new start is a new run. \"auto\": a new start, too, "
                  "resumes from the newest checkpoint of the runs of its name. \"never\". Or a "
                  "path: a run folder, or one of its checkpoints. See docs/checkpoints.md.",
       .aliases = {{"resume_from_checkpoint", "Hugging Face"},
                   {"ckpt_path", "Lightning"},
                   {"autoresume", "Composer"},
                   {"overwrite_output_dir", "Hugging Face", "\"never\" keeps the old folder, too."},
                   {"load_path", "MosaicML"},
                   {"resume_from resume_training auto_resume load_checkpoint",
                    "PyTorch examples"}}},
      {.DDPRUN_KEY(run, recovery),
       .meaning = "What replaces a rank that a signal kills (SIGKILL, a segmentation fault), if "
                  "restarts are allowed (ddprun --max_restarts). \"peer\": another process "
                  "replaces it with the state of another rank, and all repeat the step. "
                  "\"auto\": the same if the other keys allow it. \"memory\": the same for "
                  "\"zero1\", \"zero2\" and \"zero3\", too: each rank keeps two copies of its "
                  "part of the state in memory that outlives it. \"none\": all ranks start again "
                  "from the newest checkpoint. See docs/recovery.md."},
  };
}

std::vector<Key> TrainingKeys() {
  return {
      {.DDPRUN_KEY(training, per_device_train_batch_size),
       .meaning = "Micro-batch of one rank; a step takes this times the accumulation steps times "
                  "the ranks.",
       .unit = "samples",
       .range = kSize,
       .aliases =
           {{"train_micro_batch_size_per_gpu", "DeepSpeed"},
            {"local_batch_size", "torchtitan"},
            {"batch_size", "PyTorch"},
            {"micro_batch_size", "Megatron"},
            {"per_device_batch_size", "PyTorch examples"},
            {"per_gpu_train_batch_size", "Hugging Face"},
            {"device_train_microbatch_size", "Composer"},
            {"batch", "Ultralytics"},
            {"bs", "fastai"},
            {"train_batch_size", "DeepSpeed", "There it is of all ranks together, here of one."},
            {"global_batch_size", "torchtitan", "There it is of all ranks together, here of one."},
            {"total_batch_size", "llm.c", "There it is of all ranks together, here of one."}}},
      {.DDPRUN_KEY(training, per_device_eval_batch_size),
       .meaning = "Batch of one rank in validation; 0 means the training micro-batch.",
       .unit = "samples",
       .range = kSizeOrZero,
       .derived_default = "training.per_device_train_batch_size",
       .aliases = {{"eval_batch_size per_gpu_eval_batch_size", "Hugging Face"},
                   {"val_batch_size test_batch_size", "PyTorch examples"}}},
      {.DDPRUN_KEY(training, gradient_accumulation_steps),
       .meaning = "Micro-batches whose gradients are summed before one optimizer step: a larger "
                  "batch in the same memory.",
       .unit = "micro-batches",
       .range = Between(1, 1 << 20),
       .aliases = {{"accumulate_grad_batches", "Lightning"},
                   {"accumulation_steps gradient_accumulation accum_iter", "PyTorch examples"},
                   {"grad_accum_steps", "llm.c"}}},
      {.DDPRUN_KEY(training, virtual_ranks),
       .meaning = "Ranks among which samples are divided, for any number of processes: up to "
                  "this many processes give the same bits. Batch sizes are then per virtual "
                  "rank, and each has one thread (docs/virtual_ranks.md). 0: every process is "
                  "one rank.",
       .range = Between(0, 1 << 16)},
  };
}

std::vector<Key> ClippingKeys() {
  return {
      {.DDPRUN_KEY(training, max_grad_norm),
       .meaning = "Gradients with a larger global norm are scaled down to this norm; 0: no "
                  "clipping.",
       .range = AtLeast(0),
       .aliases = {{"max_norm", "torchtitan"},
                   {"gradient_clipping", "DeepSpeed"},
                   {"gradient_clip_val", "Lightning"},
                   {"grad_clip", "nanoGPT"},
                   {"clip-norm", "Marian"},
                   {"clip_grad_norm", "PyTorch"},
                   {"clip_grad", "timm"},
                   {"gradient_clip", "PyTorch examples"}}},
      {.DDPRUN_KEY(training, max_grad_value),
       .meaning = "Each element of a gradient that is beyond this value, or below its negative, is "
                  "set to it, before training.max_grad_norm clips; 0: no such clipping.",
       .range = AtLeast(0),
       .aliases = {{"clip_grad_value", "PyTorch"},
                   {"gradient_clip_algorithm", "Lightning", "For \"value\" set max_grad_value."},
                   {"clipvalue", "Keras"}}},
      {.DDPRUN_KEY(training, max_norm_jump),
       .meaning =
           "Gradients whose norm is more than so many times the median of the last 100 "
           "steps are scaled down to that, before training.max_grad_norm clips, and a line says "
           "so; 0: never.",
       .range = AtLeast(0),
       .aliases = {{"clip_percentile", "AutoClip", "There it is a percentile."}}},
  };
}

std::vector<Key> LoraKeys() {
  return {
      {.DDPRUN_KEY(training, freeze),
       .meaning = "A parameter is not trained if its name has one of these words, as those of "
                  "optimizer.no_decay. Dropout of its layer goes on. A word that is in no name is "
                  "refused.",
       .aliases = {{"freeze_layers frozen_layers freeze_modules", "PyTorch examples"}}},
      {.DDPRUN_KEY(training, lora_r),
       .meaning = "Trains with LoRA as peft does: the weights of model.name_or_path are frozen, "
                  "and chosen linear layers get two matrices of this narrow size. The run leaves "
                  "adapter/ for peft, and model/ with the matrices merged. 0: no LoRA.",
       .range = kSizeOrZero,
       .only_for = {"model.type", {"gpt", "llama", "bert"}},
       .aliases = {{"lora_rank", "LLaMA-Factory"}}},
      {.DDPRUN_KEY(training, lora_alpha),
       .meaning = "The product of the matrices is scaled by lora_alpha / lora_r.",
       .range = Above(0)},
      {.DDPRUN_KEY(training, lora_dropout),
       .meaning = "Probability of dropout of the input of the matrices.",
       .range = kBelowOne},
      {.DDPRUN_KEY(training, lora_target_modules),
       .meaning = "Names of the linear layers with matrices, or the ends of names; \"all-linear\" "
                  "is all but a head of classes. A name that no layer has is refused.",
       .derived_default = "as in peft: c_attn (gpt), q_proj and v_proj (llama), query and value "
                          "(bert)",
       .aliases = {{"target_modules", "peft"},
                   {"lora_target lora_target_layers", "LLaMA-Factory"}}},
      {.DDPRUN_KEY(training, use_rslora),
       .meaning = "Scales by lora_alpha / sqrt(lora_r) instead."},
  };
}

std::vector<Key> LossKeys() {
  return {
      {.DDPRUN_KEY(training, loss),
       .meaning = "The loss to minimise. \"auto\" is the model's own: tokens for language "
                  "models, else cross-entropy if targets are classes and the mean squared error "
                  "if they are numbers. A mean over all predictions of all ranks and "
                  "micro-batches.",
       .aliases = {{"criterion loss_fn", "PyTorch"},
                   {"loss_type", "Hugging Face"},
                   {"loss_function", "Ludwig"},
                   {"objective", "XGBoost"}}},
      {.DDPRUN_KEY(training, label_smoothing),
       .meaning = "Share of each target that cross-entropy spreads evenly over all classes, in "
                  "training only.",
       .range = kBelowOne,
       .aliases = {{"label_smoothing_factor", "Hugging Face"}, {"smoothing", "timm"}}},
      {.DDPRUN_KEY(training, class_weights),
       .meaning = "How much a sample of each class counts in the loss, in the order of "
                  "data.labels, as the weight of PyTorch's CrossEntropyLoss: the loss is the "
                  "weighted mean over all samples of a step. Evaluations weigh alike.",
       .range = Above(0),
       .aliases = {{"class_weight", "Keras"}, {"pos_weight loss_weights", "PyTorch examples"}}},
      {.DDPRUN_KEY(training, balance_classes),
       .meaning = "Sets training.class_weights so that all classes of the training data count "
                  "equally much: scikit-learn's \"balanced\".",
       .aliases = {{"balanced class_balance auto_class_weights", "PyTorch examples"}}},
      {.DDPRUN_KEY(training, stop_on_bad_loss),
       .meaning = "Ends the run with an error when the loss is NaN or infinite.",
       .derived_default = "true; with scheduler.range_test: false",
       .aliases = {{"terminate_on_nan check_finite detect_anomaly", "Lightning"},
                   {"logging_nan_inf_filter", "Hugging Face"}}},
  };
}

std::vector<Key> ComputeKeys() {
  return {
      {.DDPRUN_KEY(training, precision),
       .meaning = "\"bf16\": matrix products in bfloat16, with weights, gradients and optimizer "
                  "in float32; twice as fast if the processor has bfloat16 instructions. "
                  "\"fp16\": in float16, with a dynamic loss scale, for GPUs without bfloat16.",
       .aliases = {{"mixed_precision downcast_bf16", "accelerate"},
                   {"bf16", "Hugging Face and DeepSpeed", "Instead of true write \"bf16\"."},
                   {"fp16 fp16_full_eval half amp use_amp", "Hugging Face and DeepSpeed",
                    "Instead of true write \"fp16\"."},
                   {"dtype", "nanoGPT"},
                   {"torch_dtype bf16_full_eval", "Hugging Face"},
                   {"amp_dtype", "timm"}}},
      {.DDPRUN_KEY(training, init_loss_scale),
       .meaning = "First factor of the loss, so that small gradients are not zero in float16. A "
                  "step whose gradients are not finite is skipped and halves it.",
       .range = {.min = 0, .max = 1e30, .min_excluded = true},
       .only_for = {"training.precision", {"fp16"}},
       .aliases = {{"init_scale", "PyTorch"},
                   {"initial_loss_scale", "Megatron"},
                   {"initial_scale_power", "DeepSpeed", "There it is the exponent: 16 is 65536."}}},
      {.DDPRUN_KEY(training, loss_scale_growth_interval),
       .meaning = "After so many steps with finite gradients the loss scale doubles.",
       .unit = "steps",
       .range = AtLeast(1),
       .only_for = {"training.precision", {"fp16"}},
       .aliases = {{"growth_interval", "PyTorch"},
                   {"loss_scale_window", "DeepSpeed and Megatron"}}},
      {.DDPRUN_KEY(training, gradient_checkpointing),
       .meaning = "Keeps only the input of each block for backward, which computes the rest "
                  "again: less memory for a third more computing. Gradients have the same bits.",
       .aliases = {{"activation_checkpointing", "Lightning and DeepSpeed"},
                   {"activation_checkpoint", "torchtitan"},
                   {"use_recompute recompute_granularity", "Megatron"},
                   {"grad_checkpointing", "timm"},
                   {"gradient-checkpointing", "Marian"}}},
      {.DDPRUN_KEY(training, tf32),
       .meaning = "On a GPU float32 matrices and convolutions are multiplied in TF32: several "
                  "times faster, with ten of float32's 23 mantissa bits.",
       .aliases = {{"allow_tf32", "PyTorch"}}},
      {.DDPRUN_KEY(training, cuda_graph),
       .meaning = "Records a step's work on a GPU once and then launches it as a whole: for "
                  "models whose kernels are shorter than their launch. If a step cannot be "
                  "recorded, a line says why. See docs/gpu.md.",
       .aliases = {{"enable_cuda_graph", "Megatron and DeepSpeed"}}},
      {.DDPRUN_KEY(training, fused_kernels),
       .meaning =
           "On a CUDA device the loss of a language model, and a residual with its norm, are "
           "computed by kernels of ddprun's own; false: by LibTorch's. See docs/gpu.md.",
       .aliases = {{"use_liger_kernel", "transformers"}}},
      {.DDPRUN_KEY(training, matmul_engine),
       .meaning = "Engine that multiplies float32 matrices on the CPU: LibTorch's default, "
                  "oneDNN, or the one that is measured to be faster at full accuracy "
                  "(docs/speed.md).",
       .aliases = {{"float32_matmul_precision", "PyTorch"}}},
  };
}

}  // namespace ddprun::trainer
