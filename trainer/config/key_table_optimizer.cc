// Keys of the optimizer.
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
      {.DDPRUN_KEY(optimizer, weight_decay_factors),
       .meaning = "Factors of the weight decay of some parameters, as "
                  "optimizer.learning_rate_factors has them of the learning rate: {\"classifier\": "
                  "0.1}. Parameters of optimizer.no_decay still have none.",
       .derived_default = "none",
       .aliases = {{"wd_mult decay_mult", "PyTorch examples"}}},
      {.DDPRUN_KEY(optimizer, ema_decay),
       .meaning = "Keeps an exponential moving average of the weights: after each step it keeps "
                  "this share of itself, such as 0.999, and takes the rest from the weights. "
                  "Evaluations and the model of the run have the averages; training goes on with "
                  "the weights. 0 means no averages.",
       .range = kBelowOne,
       .aliases = {{"model_ema_decay", "timm"},
                   {"ema ema_rate model_ema use_ema", "PyTorch examples",
                    "It is a number, such as 0.999."}}},
      {.DDPRUN_KEY(optimizer, no_decay),
       .meaning = "A parameter gets no weight decay if its name has one of these words. Words "
                  "are separated by dots, underscores and digits, and case does not matter: "
                  "\"bn\" is a word of layer1.0.bn1.weight, but not of subnet.weight. An entry "
                  "may be several words in a row, as \"LayerNorm.weight\". The default excludes "
                  "the biases and norms of all built-in models.",
       .aliases = {{"no_decay_patterns", "Hugging Face"}, {"no_weight_decay", "timm"}}},
  };
}

// Keys of some kinds of optimizers.
std::vector<Key> OptimizerKindKeys() {
  return {
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
  };
}

}  // namespace ddprun::trainer
