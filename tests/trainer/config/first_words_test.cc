// The words that users of other tools type first, and what they get for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/trainer/config/config_text_fixture.h"
#include "trainer/config/foreign_names.h"
#include "trainer/config/keys.h"

namespace ddprun::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

const char* const kGpt = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"}})";

std::string HintFor(const std::string& override) {
  const Result<Config> config = Read({kGpt, {override}});
  return config.has_value() ? "accepted" : config.error().hint;
}

struct FirstWord {
  const char* typed;  // after --set; without a section as in a flat config
  const char* told;   // a part of the hint
};

// By the tool, in the order of its own documentation.
constexpr FirstWord kFirstWords[] = {
    // torchrun
    {"nproc_per_node", "--nproc_per_node"},
    {"run.nnodes", "--nproc_per_node"},
    {"max_restarts", "flag of ddprun"},
    {"master_addr", "--nproc_per_node"},
    {"rdzv_endpoint", "--nproc_per_node"},
    // accelerate
    {"mixed_precision", "training.precision"},
    {"num_processes", "--nproc_per_node"},
    {"machine_rank", "--nproc_per_node"},
    {"distributed_type", "strategy.type"},
    {"fsdp_config", "zero3"},
    {"gpu_ids", "run.device"},
    {"dynamo_backend", "no compiler"},
    // Lightning's Trainer
    {"training.accelerator", "run.device"},
    {"devices", "strategy.devices"},
    {"num_nodes", "--nproc_per_node"},
    {"precision", "training.precision"},
    {"logger", "export_run.py"},
    {"fast_dev_run", "run.max_steps=2"},
    {"training.max_epochs", "run.max_epochs"},
    {"max_time", "run.max_time"},
    {"training.max_train_samples", "data.max_train_samples"},
    {"training.eval_on_start", "evaluation.eval_on_start"},
    {"overfit_batches", "data.max_train_samples"},
    {"limit_train_batches", "data.max_train_samples"},
    {"limit_val_batches", "data.max_eval_samples"},
    {"num_sanity_val_steps", "evaluation.eval_on_start"},
    {"val_check_interval", "evaluation.eval_steps"},
    {"check_val_every_n_epoch", "evaluation.eval_steps"},
    {"log_every_n_steps", "report.logging_steps"},
    {"enable_checkpointing", "checkpoint.save_steps"},
    {"enable_progress_bar", "report.progress_bar"},
    {"accumulate_grad_batches", "training.gradient_accumulation_steps"},
    {"gradient_clip_val", "training.max_grad_norm"},
    {"deterministic", "same numbers"},
    {"default_root_dir", "run.output_dir"},
    {"detect_anomaly", "training.stop_on_bad_loss"},
    {"strategy.strategy", "strategy.type"},
    // transformers' TrainingArguments
    {"output_dir", "run.output_dir"},
    {"do_eval", "ddp-trainer evaluate RUN"},
    {"do_predict", "ddp-trainer evaluate RUN"},
    {"eval_strategy", "evaluation.eval_steps"},
    {"per_device_train_batch_size", "training.per_device_train_batch_size"},
    {"gradient_accumulation_steps", "training.gradient_accumulation_steps"},
    {"learning_rate", "optimizer.learning_rate"},
    {"training.learning_rate", "optimizer.learning_rate"},
    {"weight_decay", "optimizer.weight_decay"},
    {"adam_beta1", "optimizer.betas"},
    {"adam_epsilon", "optimizer.eps"},
    {"max_grad_norm", "training.max_grad_norm"},
    {"num_train_epochs", "run.max_epochs"},
    {"training.num_train_epochs", "run.max_epochs"},
    {"training.max_steps", "run.max_steps"},
    {"lr_scheduler_type", "scheduler.lr_scheduler_type"},
    {"warmup_ratio", "scheduler.warmup_steps"},
    {"training.warmup_steps", "scheduler.warmup_steps"},
    {"logging_dir", "report.tensorboard"},
    {"logging_steps", "report.logging_steps"},
    {"training.save_steps", "checkpoint.save_steps"},
    {"save_strategy", "checkpoint.save_steps"},
    {"training.save_total_limit", "checkpoint.save_total_limit"},
    {"load_best_model_at_end", "checkpoint.load_best_model_at_end"},
    {"monitor", "checkpoint.save_best"},
    {"save_top_k", "checkpoint.save_total_limit_best"},
    {"resume_from_checkpoint", "run.resume"},
    {"checkpoint.async_mode", "written in the background"},
    {"seed", "run.seed"},
    {"training.seed", "run.seed"},
    {"data.seed", "data.data_seed"},
    {"bf16", "training.precision"},
    {"training.fp16", "write \"fp16\""},
    {"tf32", "training.tf32"},
    {"dataloader_drop_last", "data.dataloader_drop_last"},
    {"dataloader_num_workers", "data.dataloader_num_workers"},
    {"dataloader_pin_memory", "nothing to choose"},
    {"deepspeed", "zero2"},
    {"label_smoothing_factor", "training.label_smoothing"},
    {"optim", "optimizer.type"},
    {"group_by_length", "data.length_grouped"},
    {"report_to", "report.tensorboard"},
    {"ddp_find_unused_parameters", "strategy.find_unused_parameters"},
    {"ddp_bucket_cap_mb", "strategy.bucket_cap_mb"},
    {"push_to_hub", "nothing to a hub"},
    {"gradient_checkpointing", "training.gradient_checkpointing"},
    {"torch_compile", "no compiler"},
    {"model_name_or_path", "model.name_or_path"},
    {"run_name", "run.name"},
    {"disable_tqdm", "report.progress_bar"},
    // a Hugging Face config.json
    {"model.model_type", "model.type"},
    {"model.n_positions", "model.max_position_embeddings"},
    {"model.hidden_dropout_prob", "model.dropout"},
    {"model.layer_norm_eps", "model.type decides"},
    // DeepSpeed
    {"train_batch_size", "of all ranks together"},
    {"train_micro_batch_size_per_gpu", "training.per_device_train_batch_size"},
    {"gradient_clipping", "training.max_grad_norm"},
    {"steps_per_print", "report.logging_steps"},
    {"zero_optimization.stage", "zero1"},
    {"fp16.enabled", "write \"fp16\""},
    {"loss_scale_window", "training.loss_scale_growth_interval"},
    {"min_loss_scale", "by itself"},
    {"optimizer.params", "stand in the section itself"},
    {"scheduler.params", "stand in the section itself"},
    {"activation_checkpointing", "training.gradient_checkpointing"},
    {"training.recompute_method", "training.gradient_checkpointing true"},
    {"wall_clock_breakdown", "report.trace_steps"},
    {"training.reduce_bucket_size", "MiB"},
    // nanoGPT
    {"out_dir", "run.output_dir"},
    {"eval_interval", "evaluation.eval_steps"},
    {"log_interval", "report.logging_steps"},
    {"eval_iters", "data.max_eval_samples"},
    {"eval_only", "ddp-trainer evaluate RUN"},
    {"init_from", "model.name_or_path"},
    {"wandb_log", "export_run.py"},
    {"dataset", "data"},
    {"batch_size", "training.per_device_train_batch_size"},
    {"data.batch_size", "training.per_device_train_batch_size"},
    {"block_size", "max_position_embeddings"},
    {"data.block_size", "data.max_seq_length"},
    {"model.n_layer", "model.num_hidden_layers"},
    {"n_embd", "model.hidden_size"},
    {"model.bias", "attention_bias"},
    {"max_iters", "run.max_steps"},
    {"beta2", "optimizer.betas"},
    {"grad_clip", "training.max_grad_norm"},
    {"decay_lr", "scheduler.lr_scheduler_type"},
    {"warmup_iters", "scheduler.warmup_from_zero false"},
    {"lr_decay_iters", "falls over the whole run"},
    {"min_lr", "share of optimizer.learning_rate"},
    {"backend", "nothing else to choose"},
    {"device", "run.device"},
    {"dtype", "training.precision"},
    {"compile", "no compiler"},
    // torchtitan
    {"dump_folder", "run.output_dir"},
    {"model.name", "model.type"},
    {"optimizer.name", "optimizer.type"},
    {"optimizer.lr", "optimizer.learning_rate"},
    {"training.local_batch_size", "training.per_device_train_batch_size"},
    {"training.global_batch_size", "of all ranks together"},
    {"training.seq_len", "data.max_seq_length"},
    {"training.max_norm", "training.max_grad_norm"},
    {"training.steps", "run.max_steps"},
    {"parallelism.tensor_parallel_degree", "strategy"},
    {"strategy.tensor_parallel_degree", "strategy.tensor_parallel_size"},
    {"checkpoint.interval", "checkpoint.save_steps"},
    {"checkpoint.folder", "checkpoint.dir"},
    {"metrics.enable_tensorboard", "report"},
    {"report.enable_tensorboard", "report.tensorboard"},
    // PyTorch and everyday scripts
    {"training.batch", "training.per_device_train_batch_size"},
    {"training.epochs", "run.max_epochs"},
    {"lr", "optimizer.learning_rate"},
    {"training.lr", "optimizer.learning_rate"},
    {"training.optimizer", "optimizer.type"},
    {"training.scheduler", "scheduler.lr_scheduler_type"},
    {"optimizer.amsgrad", "not there yet"},
    {"optimizer.centered", "not there yet"},
    {"scheduler.num_stable_steps", "scheduler.decay_steps"},
    {"scheduler.num_decay_steps", "scheduler.decay_steps"},
    {"scheduler.lr_end", "scheduler.min_lr_ratio"},
    {"training.class_weight", "training.class_weights"},
    {"sample_weight", "data.weight_column"},
    {"training.balanced", "training.balance_classes"},
    {"training.sample_weights", "data.weight_column"},
    {"training.l1_lambda", "not there yet"},
    {"training.lr_find", "scheduler.range_test"},
    {"training.callbacks", "report.plugin"},
    {"training.freeze_layers", "training.freeze"},
    {"optimizer.layer_decay", "optimizer.learning_rate_factors"},
    {"optimizer.param_groups", "optimizer.learning_rate_factors"},
    {"optimizer.lr_mult", "optimizer.learning_rate_factors"},
    {"training.freeze_encoder", "training.freeze"},
    {"model.use_lora", "training.lora_r"},
    {"training.lora_rank", "training.lora_r"},
    {"training.peft", "training.lora_r"},
    {"training.target_modules", "training.lora_target_modules"},
    {"model.adapter_name_or_path", "model.adapter"},
    {"training.use_dora", "not there yet"},
    {"model.initializer_range", "not there yet"},
    {"data.streaming", "tokenized into a file"},
    {"data.group_texts", "are cut"},
    {"data.sample_packing", "data.packing"},
    {"data.messages", "data.format \"chat\""},
    {"training.lr_step_size", "scheduler.step_size"},
    {"scheduler.patience", "scheduler.plateau_patience"},
    {"training.ema", "optimizer.ema_decay"},
    {"training.model_ema_decay", "optimizer.ema_decay"},
    {"training.swa", "optimizer.ema_decay"},
    {"num_workers", "data.dataloader_num_workers"},
    {"pin_memory", "nothing to choose"},
    {"data.drop_last", "data.dataloader_drop_last"},
    {"data.path", "data.train_files"},
    {"data.data_dir", "data.train_files"},
    {"data.val_split", "data.validation_fraction"},
    {"model.num_classes", "model.num_labels"},
    {"model.pretrained", "model.name_or_path"},
    {"model.input_size", "model.layer_sizes"},
    {"evaluation.patience", "evaluation.early_stopping_patience"},
    {"early_stopping", "evaluation.early_stopping_patience"},
    {"evaluation.test_files", "data.test_files"},
    {"per-device-train-batch-size", "training.per_device_train_batch_size"},
};

TEST(FirstWords, AreAnsweredByTheKeyOrByWhatIsNotThereYet) {
  for (const FirstWord& word : kFirstWords) {
    EXPECT_THAT(HintFor(std::string(word.typed) + "=1"), HasSubstr(word.told)) << word.typed;
  }
}

constexpr FirstWord kFirstValues[] = {
    {"optimizer.type=adamw_torch", "\"adamw\""},
    {"optimizer.type=AdamW", "\"adamw\""},
    {"optimizer.type=lion_32bit", "\"lion\""},
    {"optimizer.type=adafactor", "not there yet"},
    {"optimizer.type=RMSprop", "not there yet"},
    {"optimizer.type=adamw_bnb_8bit", "not there yet"},
    {"scheduler.lr_scheduler_type=constant_with_warmup", "\"constant\""},
    {"scheduler.lr_scheduler_type=CosineAnnealingLR", "\"cosine\""},
    {"scheduler.lr_scheduler_type=WarmupDecayLR", "\"linear\""},
    {"scheduler.lr_scheduler_type=poly", "\"polynomial\""},
    {"scheduler.lr_scheduler_type=StepLR", "\"step\""},
    {"scheduler.lr_scheduler_type=ReduceLROnPlateau", "\"reduce_lr_on_plateau\""},
    {"scheduler.lr_scheduler_type=OneCycleLR", "\"one_cycle\""},
    {"scheduler.lr_scheduler_type=wsd", "\"warmup_stable_decay\""},
    {"training.precision=16-mixed", "\"fp16\""},
    {"training.precision=16-true", "stay in float32"},
    {"training.precision=bf16-mixed", "\"bf16\""},
    {"training.precision=bf16-true", "stay in float32"},
    {"training.precision=32-true", "\"fp32\""},
    {"training.precision=float32", "\"fp32\""},
    {"training.precision=fp8", "not there yet"},
    {"training.precision=tf32", "training.tf32"},
    {"strategy.type=deepspeed_stage_2", "\"zero2\""},
    {"strategy.type=fsdp", "\"zero3\""},
    {"strategy.type=DataParallel", "\"dp\""},
    {"strategy.type=ddp_find_unused_parameters_true", "strategy.find_unused_parameters"},
    {"strategy.overlap=true", "\"backward\""},
    {"strategy.comm_hook=fp16_compress", "\"fp16\""},
    {"run.device=gpu", "\"cuda\""},
    {"run.device=mps", "not there yet"},
    {"run.device=cp", "\"cpu\""},
    {"run.device=none", "\"cpu\""},
    {"evaluation.metrics=acc", "\"accuracy\""},
    {"evaluation.metrics=[\"matthews_correlation\"]", "\"mcc\""},
    {"evaluation.metrics=auc", "\"roc_auc\""},
    {"evaluation.metrics=classification_report", "\"confusion_matrix\""},
    {"evaluation.metrics=r2_score", "\"r2\""},
    {"evaluation.metrics=bleu", "not there yet"},
    {"scheduler.lr_scheduler_type=MultiStepLR", "\"multi_step\""},
    {"evaluation.metrics=loss", "always there"},
    {"training.loss=CrossEntropyLoss", "\"cross_entropy\""},
    {"training.loss=bce_with_logits", "not there yet"},
    {"training.loss=L1Loss", "not there yet"},
    {"model.type=gpt2", "\"gpt\""},
    {"model.type=roberta", "TorchScript"},
    {"model.type=resnet", "\"resnet18\""},
    {"model.activation=tanh", "not there yet"},
    {"data.format=mnist", "\"idx\""},
    {"data.format=parquet", "not there yet"},
    {"comm.algorithm=nccl", "\"direct\""},
    {"report.progress_bar=true", "\"on\""},
};

TEST(FirstWords, OfValuesAreAnsweredAsWell) {
  for (const FirstWord& value : kFirstValues) {
    std::string hint = HintFor(value.typed);
    std::ranges::transform(hint, hint.begin(), [](char c) { return c == 'N' ? 'n' : c; });
    EXPECT_THAT(hint, HasSubstr(value.told)) << value.typed;
  }
}

TEST(FirstWords, AreAnsweredWhereTheFileHasANumberOrASwitch) {
  const auto hint = [](const char* section) {
    const Result<Config> config =
        Read({"{" + std::string(section) + R"(, "model": {"type": "gpt"}})"});
    return config.has_value() ? "" : config.error().hint;
  };
  EXPECT_EQ(hint(R"("training": {"precision": 32})"), "Here that is \"fp32\".");
  EXPECT_EQ(hint(R"("training": {"precision": 16})"), "Here that is \"fp16\".");
  EXPECT_EQ(hint(R"("report": {"progress_bar": false})"), "Here that is \"off\".");
  EXPECT_EQ(hint(R"("optimizer": "adamw")"), "Write { \"type\": \"adamw\" }.");
  EXPECT_EQ(hint(R"("scheduler": "linear")"), "Write { \"lr_scheduler_type\": \"linear\" }.");
  EXPECT_THAT(hint(R"("ddp": 1)"), HasSubstr("\"strategy\""));
  EXPECT_THAT(hint(R"("optim": "sgd")"), HasSubstr("optimizer.type"));
  EXPECT_THAT(hint(R"("optim": {"type": "sgd"})"), HasSubstr("\"optimizer\""));
}

TEST(FirstWords, ThatResembleNothingAreNotGuessedAt) {
  for (const char* typed : {"training.zebra=1", "quux=1", "optimizer.type=zebra",
                            "training.precision=zebra", "evaluation.metrics=zebra"}) {
    EXPECT_THAT(HintFor(typed), Not(HasSubstr("Did you mean"))) << typed;
  }
}

// A name for two keys of one section, or for a key and for what is not there, has two answers.
TEST(FirstWords, HaveOneAnswer) {
  for (const Section& section : AllSections()) {
    std::set<std::string> seen;
    for (const Key& key : AllKeys()) {
      if (key.section != section.name) continue;
      EXPECT_EQ(WithoutKeyHint(key.name), std::nullopt) << key.Path();
      for (const Alias& alias : key.aliases) {
        std::istringstream names{std::string(alias.names)};
        for (std::string name; names >> name;) {
          EXPECT_TRUE(seen.insert(name).second) << key.Path() << " " << name;
          EXPECT_EQ(WithoutKeyHint(name), std::nullopt) << key.Path() << " " << name;
          EXPECT_EQ(FindKey(key.section, name), nullptr) << key.Path() << " " << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ddprun::trainer
