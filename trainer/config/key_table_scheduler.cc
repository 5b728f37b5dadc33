// Keys of the schedule of the learning rate.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

std::vector<Key> SchedulerKeys() {
  return {
      {.DDPRUN_KEY(scheduler, lr_scheduler_type),
       .meaning = "How the learning rate falls after the warmup.",
       .aliases = {{"type", "DeepSpeed"},
                   {"lr_scheduler", "Lightning"},
                   {"decay_lr", "nanoGPT", "Instead of false write \"constant\"."},
                   {"name scheduler schedule lr_schedule", "PyTorch examples"},
                   {"sched", "timm"},
                   {"lr_decay_style", "Megatron"}}},
      {.DDPRUN_KEY(scheduler, warmup_steps),
       .meaning = "The learning rate rises over so many steps; below 1 it is a share of the run.",
       .unit = "optimizer steps or share",
       .range = AtLeast(0),
       .aliases = {{"warmup_ratio", "Hugging Face", "A share is below 1."},
                   {"warmup_num_steps", "DeepSpeed"},
                   {"warmup_iters", "nanoGPT",
                    "nanoGPT's warmup begins above 0: scheduler.warmup_from_zero false."},
                   {"lr-warmup", "Marian"},
                   {"num_warmup_steps", "Hugging Face"},
                   {"warmup warmup_proportion", "PyTorch examples"},
                   {"warmup_iterations", "llm.c"},
                   {"lr_warmup_iters", "Megatron"}}},
      {.DDPRUN_KEY(scheduler, warmup_from_zero),
       .meaning = "The first step of the warmup has the learning rate 0: step i of n, counted from "
                  "0, has the share i / n, as in transformers. false: (i + 1) / (n + 1), as in "
                  "nanoGPT."},
      {.DDPRUN_KEY(scheduler, min_lr_ratio),
       .meaning = "Last learning rate as a share of optimizer.learning_rate.",
       .range = Between(0, 1),
       .derived_default = "0.1; reduce_lr_on_plateau: 0",
       .only_for = {"scheduler.lr_scheduler_type",
                    {"cosine", "polynomial", "warmup_stable_decay", "reduce_lr_on_plateau"}},
       .aliases = {{"min_lr_factor", "torchtitan"},
                   {"min_lr", "nanoGPT", "Here it is a share of optimizer.learning_rate."},
                   {"final-lr-fraction", "LLM.Q"},
                   {"min_lr_rate", "Hugging Face"},
                   {"cos_min_ratio", "DeepSpeed"},
                   {"eta_min", "PyTorch", "Here it is a share of optimizer.learning_rate."},
                   {"lr_end", "Hugging Face", "Here it is a share of optimizer.learning_rate."}}},
      {.DDPRUN_KEY(scheduler, range_test),
       .meaning = "Two learning rates, such as [1e-7, 1]: the run searches for a good one. Over "
                  "its steps the rate rises from the first to the last, in place of the schedule, "
                  "and at the end the log says where the loss fell fastest. Empty: no search.",
       .range = Above(0),
       .aliases = {{"auto_lr_find lr_find", "Lightning", "Write the two ends: [1e-7, 1]."},
                   {"lr_finder find_lr lr_range_test", "PyTorch examples",
                    "Write the two ends: [1e-7, 1]."}}},
  };
}

// Keys of one kind of schedule.
std::vector<Key> ScheduleShapeKeys() {
  return {
      {.DDPRUN_KEY(scheduler, num_cycles),
       .meaning = "How often the cosine starts at the top.",
       .range = kSize,
       .only_for = {"scheduler.lr_scheduler_type", {"cosine_with_restarts"}}},
      {.DDPRUN_KEY(scheduler, power),
       .meaning = "The learning rate is this power of the share of steps that are left; 1 is a "
                  "line.",
       .range = Above(0),
       .only_for = {"scheduler.lr_scheduler_type", {"polynomial"}},
       .aliases = {{"poly_power", "PyTorch examples"}}},
      {.DDPRUN_KEY(scheduler, decay_steps),
       .meaning = "The learning rate falls over so many steps at the end of the run; below 1 they "
                  "are a share of the run.",
       .unit = "optimizer steps or share",
       .range = AtLeast(0),
       .only_for = {"scheduler.lr_scheduler_type", {"warmup_stable_decay"}},
       .aliases = {{"num_decay_steps", "Hugging Face"},
                   {"decay_ratio", "torchtitan", "A share is below 1."},
                   {"cooldown_steps", "PyTorch examples"}}},
      {.DDPRUN_KEY(scheduler, decay_type),
       .meaning = "How the learning rate falls over scheduler.decay_steps.",
       .only_for = {"scheduler.lr_scheduler_type", {"warmup_stable_decay"}}},
      {.DDPRUN_KEY(scheduler, step_size),
       .meaning = "The learning rate is multiplied by scheduler.gamma each time that so many steps "
                  "or epochs have passed since the first step of the run.",
       .only_for = {"scheduler.lr_scheduler_type", {"step"}},
       .counted = CountedIn::kSteps,
       .aliases = {{"lr_step_size", "PyTorch examples"}, {"decay_epochs", "timm"}}},
      {.DDPRUN_KEY(scheduler, milestones),
       .meaning = "The learning rate is multiplied by scheduler.gamma after each of these numbers "
                  "of steps; below 1 they are shares of the run, as [0.5, 0.75].",
       .unit = "optimizer steps or share",
       .range = Above(0),
       .only_for = {"scheduler.lr_scheduler_type", {"multi_step"}},
       .aliases = {{"lr_milestones lr_steps", "PyTorch examples"}, {"decay_milestones", "timm"}}},
      {.DDPRUN_KEY(scheduler, gamma),
       .meaning = "Factor of the learning rate after each scheduler.step_size, or at each of "
                  "scheduler.milestones.",
       .range = Above(0),
       .only_for = {"scheduler.lr_scheduler_type", {"step", "multi_step"}},
       .aliases = {{"lr_gamma", "PyTorch examples"}, {"decay_rate", "timm"}}},
      {.DDPRUN_KEY(scheduler, pct_start),
       .meaning = "Share of the run in which the learning rate rises. The schedule is PyTorch's "
                  "OneCycleLR with cosines and without a cycle of the momentum.",
       .range = {.min = 0, .max = 1, .min_excluded = true, .max_excluded = true},
       .only_for = {"scheduler.lr_scheduler_type", {"one_cycle"}}},
      {.DDPRUN_KEY(scheduler, div_factor),
       .meaning = "The first learning rate is optimizer.learning_rate divided by this.",
       .range = AtLeast(1),
       .only_for = {"scheduler.lr_scheduler_type", {"one_cycle"}}},
      {.DDPRUN_KEY(scheduler, final_div_factor),
       .meaning = "The last learning rate is the first one divided by this.",
       .range = AtLeast(1),
       .only_for = {"scheduler.lr_scheduler_type", {"one_cycle"}}},
  };
}

std::vector<Key> PlateauKeys() {
  return {
      {.DDPRUN_KEY(scheduler, plateau_factor),
       .meaning = "Factor of the learning rate after scheduler.plateau_patience evaluations that "
                  "did not improve the metric of checkpoint.save_best, or else the loss.",
       .range = Between(0, 1),
       .only_for = {"scheduler.lr_scheduler_type", {"reduce_lr_on_plateau"}},
       .aliases = {{"factor", "PyTorch"}}},
      {.DDPRUN_KEY(scheduler, plateau_patience),
       .meaning = "So many evaluations in a row may fail to improve the metric; the next one that "
                  "fails reduces the learning rate.",
       .unit = "evaluations",
       .range = AtLeast(0),
       .only_for = {"scheduler.lr_scheduler_type", {"reduce_lr_on_plateau"}},
       .aliases = {{"patience", "PyTorch"}, {"patience_epochs", "timm"}}},
      {.DDPRUN_KEY(scheduler, plateau_threshold),
       .meaning = "The metric must be better than the best by more than this share of it to "
                  "improve.",
       .range = AtLeast(0),
       .only_for = {"scheduler.lr_scheduler_type", {"reduce_lr_on_plateau"}},
       .aliases = {{"threshold", "PyTorch"}}},
      {.DDPRUN_KEY(scheduler, plateau_cooldown),
       .meaning = "So many evaluations after a reduction do not count as failed.",
       .unit = "evaluations",
       .range = AtLeast(0),
       .only_for = {"scheduler.lr_scheduler_type", {"reduce_lr_on_plateau"}},
       .aliases = {{"cooldown", "PyTorch"}}},
  };
}

}  // namespace ddprun::trainer
