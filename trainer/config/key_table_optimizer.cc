// Keys of the optimizer and its schedule.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

std::vector<Key> OptimizerKeys() {
  return {
      {.DDPRUN_KEY(optimizer, type),
       .meaning = "The update rule.",
       .aliases = {{"optim", "Hugging Face"},
                   {"name", "torchtitan"},
                   {"optimizer", "DeepSpeed"},
                   {"optimizer_name", "PyTorch examples"},
                   {"opt", "timm"}}},
      {.DDPRUN_KEY(optimizer, learning_rate),
       .meaning = "Highest learning rate, reached after the warmup.",
       .range = AtLeast(0),
       .aliases = {{"lr", "PyTorch and DeepSpeed"},
                   {"learn-rate", "Marian"},
                   {"base_lr peak_lr init_lr", "PyTorch examples"},
                   {"max_lr", "PyTorch"}}},
      {.DDPRUN_KEY(optimizer, learning_rate_factors),
       .meaning = "Words of parameters' names, as those of optimizer.no_decay, with factors: "
                  "{\"classifier\": 10, \"embeddings\": 0.1} multiplies the learning rate of the "
                  "parameters whose name has the word. Where several words are in one name, their "
                  "product counts. A word that is in no name is refused.",
       .derived_default = "none",
       .aliases = {{"lr_multipliers lr_mult learning_rate_multipliers", "PyTorch examples"}}},
      {.DDPRUN_KEY(optimizer, weight_decay),
       .meaning = "Decoupled for adamw and lion, added to the gradient for others.",
       .range = AtLeast(0),
       .derived_default = "0.1 for adamw, 0 for others",
       .aliases = {{"wd l2 l2_reg", "PyTorch examples"}}},
      {.DDPRUN_KEY(optimizer, betas),
       .meaning =
           "Decay of the running means of the gradient and the squared gradient; for lion, of "
           "the mean in the update and of the mean that is kept.",
       .range = kBelowOne,
       .derived_default = "[0.9,0.95]; lion: [0.9,0.99]",
       .only_for = {"optimizer.type", {"adamw", "adam", "lion"}},
       .aliases = {{"adam_beta1 adam_beta2", "Hugging Face"},
                   {"beta1 beta2", "nanoGPT"},
                   {"adam_betas", "PyTorch examples"}}},
      {.DDPRUN_KEY(optimizer, eps),
       .meaning = "Added to the denominator of the update.",
       .range = Above(0),
       .derived_default = "1e-08; adagrad: 1e-10",
       .only_for = {"optimizer.type", {"adamw", "adam", "adagrad"}},
       .aliases = {{"adam_epsilon", "Hugging Face"},
                   {"epsilon", "Keras"},
                   {"adam_eps", "PyTorch examples"}}},
      {.DDPRUN_KEY(optimizer, momentum),
       .meaning = "Share of the last update that is kept in the next.",
       .range = kBelowOne,
       .only_for = {"optimizer.type", {"sgd"}}},
      {.DDPRUN_KEY(optimizer, dampening),
       .meaning = "Share of the gradient that does not enter the momentum.",
       .range = kBelowOne,
       .only_for = {"optimizer.type", {"sgd"}}},
      {.DDPRUN_KEY(optimizer, nesterov),
       .meaning = "The update looks a step ahead along the momentum. Needs optimizer.momentum, "
                  "without dampening.",
       .only_for = {"optimizer.type", {"sgd"}}},
      {.DDPRUN_KEY(optimizer, no_decay),
       .meaning = "A parameter gets no weight decay if its name has one of these words. Words "
                  "are separated by dots, underscores and digits, and case does not matter: "
                  "\"bn\" is a word of layer1.0.bn1.weight, but not of subnet.weight. An entry "
                  "may be several words in a row, as \"LayerNorm.weight\". The default excludes "
                  "the biases and norms of all built-in models.",
       .aliases = {{"no_decay_patterns", "Hugging Face"}, {"no_weight_decay", "timm"}}},
  };
}

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
       .only_for = {"scheduler.lr_scheduler_type", {"cosine", "polynomial", "warmup_stable_decay"}},
       .aliases = {{"min_lr_factor", "torchtitan"},
                   {"min_lr", "nanoGPT", "Here it is a share of optimizer.learning_rate."},
                   {"final-lr-fraction", "LLM.Q"},
                   {"min_lr_rate", "Hugging Face"},
                   {"cos_min_ratio", "DeepSpeed"},
                   {"eta_min", "PyTorch", "Here it is a share of optimizer.learning_rate."},
                   {"lr_end", "Hugging Face", "Here it is a share of optimizer.learning_rate."}}},
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
  };
}

}  // namespace ddprun::trainer
