// Keys of the strategy and of communication.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

namespace {

// Some deadlines would overflow with more than a week.
constexpr Range kTimeout = Between(1, 7 * 86400);

}  // namespace

std::vector<Key> StrategyKeys() {
  return {
      {.DDPRUN_KEY(strategy, type),
       .meaning = "How the ranks share the work; \"auto\" is ddp with two or more ranks.",
       .aliases = {{"strategy", "Lightning"},
                   {"parallelism", "torchtitan"},
                   {"distributed_type", "accelerate"},
                   {"name mode", "PyTorch examples"}}},
      {.DDPRUN_KEY(strategy, tensor_parallel_size),
       .meaning = "Neighbouring ranks among which each layer of a replica is split. Further "
                  "ranks are replicas, or other stages (pipeline). 0: all ranks with "
                  "tensor_parallel, otherwise 1.",
       .range = Between(0, 4096),
       .only_for = {"strategy.type", {"tensor_parallel", "pipeline", "zero1", "zero2", "zero3"}},
       .aliases = {{"tensor_parallel_degree tp tp_size", "torchtitan"},
                   {"tensor_model_parallel_size", "Megatron"}}},
      {.DDPRUN_KEY(strategy, bucket_cap_mb),
       .meaning = "Gradients are all-reduced in buckets of this size: small ones start earlier, "
                  "large ones cost less each. \"auto\" tries several sizes in the first steps, "
                  "also of the first bucket, and keeps the fastest (see metrics.jsonl).",
       .unit = "MiB",
       .range = {.min = 0, .max = 1 << 20, .min_excluded = true},
       .not_for = {"strategy.type", {"dp", "zero3"}},
       .aliases = {{"ddp_bucket_cap_mb", "Hugging Face"},
                   {"bucket_size_mb", "PyTorch"},
                   {"reduce_bucket_size", "DeepSpeed",
                    "DeepSpeed counts elements, here it is MiB."},
                   {"fusion_threshold", "Horovod"},
                   {"bucket_size", "PyTorch examples"}}},
      {.DDPRUN_KEY(strategy, first_bucket_mb),
       .meaning = "Size of the first bucket: small, so that communication starts early.",
       .unit = "MiB",
       .range = {.min = 0, .max = 1 << 20, .min_excluded = true},
       .not_for = {"strategy.type", {"dp", "zero2", "zero3"}},
       .aliases = {{"first_bucket_size_mb", "PyTorch"}}},
      {.DDPRUN_KEY(strategy, overlap),
       .meaning = "What runs while gradients are all-reduced: the backward pass; the optimizer "
                  "step by buckets, or both, with training.max_grad_norm 0; or nothing.",
       .not_for = {"strategy.type", {"dp"}},
       .aliases = {{"overlap_comm", "DeepSpeed"}}},
      {.DDPRUN_KEY(strategy, optimizer_in_backward),
       .meaning = "The optimizer updates the parameters of a bucket as soon as it is reduced, "
                  "during backward. Needs training.max_grad_norm 0. No effect on a single rank.",
       .not_for = {"strategy.type", {"dp"}}},
      {.DDPRUN_KEY(strategy, find_unused_parameters),
       .meaning = "Some parameters may get no gradient in some steps; their part of the average is "
                  "zero. Costs one small collective a step.",
       .not_for = {"strategy.type", {"dp"}},
       .aliases = {{"ddp_find_unused_parameters", "Hugging Face"}}},
      {.DDPRUN_KEY(strategy, static_graph),
       .meaning = "Every step uses the same parameters equally often as the first: unused ones "
                  "cost nothing then, and a gradient may come in several pieces.",
       .not_for = {"strategy.type", {"dp"}}},
      {.DDPRUN_KEY(strategy, devices),
       .meaning = "The devices of one process: \"cuda:0\", \"cuda:1\"; or \"cpu\" several times, "
                  "each with its share of the cores. The first has the model.",
       .only_for = {"strategy.type", {"dp", "model_parallel", "pipeline"}},
       .aliases = {{"device_ids", "PyTorch"}}},
      {.DDPRUN_KEY(strategy, output_device),
       .meaning = "The device, counted from 0 in strategy.devices, on which outputs and the loss "
                  "are gathered.",
       .range = Between(0, 1 << 16),
       .only_for = {"strategy.type", {"dp"}}},
      {.DDPRUN_KEY(strategy, loss),
       .meaning = "\"gathered\": all outputs go to the output device, which computes the loss. "
                  "\"parallel\": each device computes that of its own samples, and only losses are "
                  "gathered; the output device then needs no more memory than the others.",
       .only_for = {"strategy.type", {"dp"}}},
  };
}

std::vector<Key> GradientKeys() {
  return {
      {.DDPRUN_KEY(strategy, gradient_as_bucket_view),
       .meaning = "Gradients are always views of their buckets, so only true is accepted."},
      {.DDPRUN_KEY(strategy, broadcast_buffers),
       .meaning = "Buffers (running means of batch norm) are copied from rank 0 to all ranks "
                  "before every step and evaluation.",
       .not_for = {"strategy.type", {"dp"}},
       .aliases = {{"ddp_broadcast_buffers", "Hugging Face"}}},
      {.DDPRUN_KEY(strategy, check_finite),
       .meaning = "Look at every gradient before it is sent and end with an error that names the "
                  "first parameter with infinities or NaNs. Costs a pass over the gradients.",
       .not_for = {"strategy.type", {"dp"}}},
      {.DDPRUN_KEY(strategy, comm_hook),
       .meaning = "How gradients are sent: unchanged; as 16-bit numbers, half the bytes; or as "
                  "products of thin matrices (PowerSGD), a fraction of the bytes for large "
                  "matrices. \"post_local_sgd\" stops averaging them after some steps, and "
                  "instead averages the parameters every few steps and at the end of the run.",
       .not_for = {"strategy.type", {"dp"}},
       .aliases = {{"ddp_comm_hook", "Lightning"}, {"communication_data_type", "DeepSpeed"}}},
      {.DDPRUN_KEY(strategy, power_sgd_rank),
       .meaning = "Columns of the thin matrices: more columns are more exact.",
       .range = Between(1, 1 << 16),
       .only_for = {"strategy.comm_hook", {"power_sgd"}},
       .aliases = {{"matrix_approximation_rank", "PyTorch"}}},
      {.DDPRUN_KEY(strategy, power_sgd_start_step),
       .meaning = "Steps with plain averages before the first compressed one, because early "
                  "gradients compress badly.",
       .unit = "steps",
       .range = AtLeast(0),
       .only_for = {"strategy.comm_hook", {"power_sgd"}},
       .aliases = {{"start_powerSGD_iter", "PyTorch"}}},
      {.DDPRUN_KEY(strategy, post_local_sgd_start_step),
       .meaning = "Steps in which gradients are averaged before ranks train apart.",
       .unit = "steps",
       .range = AtLeast(0),
       .only_for = {"strategy.comm_hook", {"post_local_sgd"}},
       .aliases = {{"start_localSGD_iter warmup_steps", "PyTorch"}}},
      {.DDPRUN_KEY(strategy, post_local_sgd_period),
       .meaning = "Steps from one average of the parameters to the next. In between, ranks wait "
                  "for each other only in steps that are reported (report.logging_steps).",
       .unit = "steps",
       .range = AtLeast(1),
       .only_for = {"strategy.comm_hook", {"post_local_sgd"}},
       .aliases = {{"period", "PyTorch"}}},
      {.DDPRUN_KEY(strategy, shard_size),
       .meaning = "zero1, zero2, zero3: neighbouring ranks, as those of one node, that shard the "
                  "state of one replica of the model; all others are replicas of it. 0: all "
                  "ranks.",
       .unit = "ranks",
       .range = AtLeast(0),
       .only_for = {"strategy.type", {"zero1", "zero2", "zero3"}},
       .aliases = {{"dp_shard_size", "accelerate"}, {"data_parallel_shard_degree", "torchtitan"}}},
  };
}

std::vector<Key> CommKeys() {
  return {
      {.DDPRUN_KEY(comm, init_timeout_seconds),
       .meaning = "Longest wait for another rank until the first step is done.",
       .unit = "seconds",
       .range = kTimeout,
       .aliases = {{"ddp_timeout", "Hugging Face"},
                   {"timeout", "PyTorch"},
                   {"timeout_seconds", "PyTorch examples"}}},
      {.DDPRUN_KEY(comm, train_timeout_seconds),
       .meaning = "Longest wait after that; then the error names the missing ranks.",
       .unit = "seconds",
       .range = kTimeout},
      {.DDPRUN_KEY(comm, algorithm),
       .meaning =
           "How gradients are all-reduced. \"direct\" gives the same bits wherever the ranks "
           "are. \"hierarchical\" sends less if three or more nodes have several ranks each, "
           "and its bits depend on the placement (docs/hosts.md). The others, on one node, "
           "are for study (docs/overlap.md).",
       .not_for = {"strategy.type", {"dp", "zero2", "zero3"}}},
      {.DDPRUN_KEY(comm, emulated_link),
       .meaning =
           "Slows the collectives of ranks on CPUs to a network link of this rate, so that a "
           "network can be seen on one machine (docs/overlap.md). 0: none.",
       .unit = "Gbit/s",
       .range = AtLeast(0)},
  };
}

}  // namespace ddprun::trainer
