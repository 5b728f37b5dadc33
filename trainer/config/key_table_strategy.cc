// On how many ranks, and how they talk.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

namespace {

// Longer waits than a week would overflow deadlines in places.
constexpr Range kTimeout = Between(1, 7 * 86400);

}  // namespace

std::vector<Key> StrategyKeys() {
  return {
      {.section = "strategy",
       .name = "type",
       .slot = At<&Config::strategy, &StrategyConfig::type>,
       .meaning = "How the ranks share the work; \"auto\" is ddp with two or more ranks.",
       .aliases = {{"strategy", "Lightning"}, {"parallelism", "torchtitan"}}},
      {.section = "strategy",
       .name = "bucket_cap_mb",
       .slot = At<&Config::strategy, &StrategyConfig::bucket_cap_mb>,
       .meaning = "Gradients are all-reduced in buckets of this size: small ones start earlier, "
                  "large ones cost less each.",
       .unit = "MiB",
       .range = {.min = 0, .max = 1 << 20, .min_excluded = true},
       .aliases = {{"ddp_bucket_cap_mb", "Hugging Face"},
                   {"bucket_size_mb", "PyTorch"},
                   {"reduce_bucket_size", "DeepSpeed"}}},
      {.section = "strategy",
       .name = "first_bucket_mb",
       .slot = At<&Config::strategy, &StrategyConfig::first_bucket_mb>,
       .meaning = "Size of the first bucket: small, so that communication starts early.",
       .unit = "MiB",
       .range = {.min = 0, .max = 1 << 20, .min_excluded = true},
       .aliases = {{"first_bucket_size_mb", "PyTorch"}}},
      {.section = "strategy",
       .name = "overlap",
       .slot = At<&Config::strategy, &StrategyConfig::overlap>,
       .meaning = "What goes on while gradients are all-reduced: the backward pass; the optimizer "
                  "step, bucket by bucket; both; or nothing. \"step\" and \"both\" need "
                  "training.max_grad_norm 0.",
       .aliases = {{"overlap_comm", "DeepSpeed"}}},
  };
}

std::vector<Key> CommKeys() {
  return {
      {.section = "comm",
       .name = "init_timeout_seconds",
       .slot = At<&Config::comm, &CommConfig::init_timeout_seconds>,
       .meaning = "Longest wait for another rank until the first step is done.",
       .unit = "seconds",
       .range = kTimeout,
       .aliases = {{"ddp_timeout", "Hugging Face"}, {"timeout", "PyTorch"}}},
      {.section = "comm",
       .name = "train_timeout_seconds",
       .slot = At<&Config::comm, &CommConfig::train_timeout_seconds>,
       .meaning = "Longest wait for another rank after that; then the error names who is missing.",
       .unit = "seconds",
       .range = kTimeout},
      {.section = "comm",
       .name = "algorithm",
       .slot = At<&Config::comm, &CommConfig::algorithm>,
       .meaning = "How gradients are all-reduced within a node. \"direct\" is the fastest; the "
                  "others are for study (docs/overlap.md)."},
  };
}

}  // namespace ddprun::trainer
