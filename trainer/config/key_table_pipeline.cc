// Keys of models whose layers are distributed over devices or ranks.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

std::vector<Key> PipelineKeys() {
  return {
      {.DDPRUN_KEY(strategy, pipeline_parallel_size),
       .meaning = "Stages among which the layers of each replica are split; each is one rank, or "
                  "strategy.tensor_parallel_size ranks. Further ranks are replicas, as with ddp "
                  "or zero1. 0: all ranks with pipeline, otherwise 1.",
       .range = Between(0, 4096),
       .only_for = {"strategy.type", {"pipeline", "zero1"}},
       .aliases = {{"pipeline_parallel_degree pp pp_size", "torchtitan"},
                   {"pipeline_model_parallel_size", "Megatron"}}},
      {.DDPRUN_KEY(strategy, pipeline_schedule),
       .meaning = "The order in which a stage computes: \"1f1b\" does a backward as soon as "
                  "there is one and keeps the activations of few micro-batches; \"gpipe\" does "
                  "all forwards first and keeps those of all. Stages wait equally long with both.",
       .only_for = {"strategy.type", {"pipeline", "zero1"}},
       .aliases = {{"pipeline_parallel_schedule pp_schedule", "torchtitan"}}},
      {.DDPRUN_KEY(strategy, pipeline_micro_batches),
       .meaning = "Micro-batches into which each batch of training.per_device_train_batch_size "
                  "is split. 0: so many that a step has two for each stage, together with those "
                  "of training.gradient_accumulation_steps; 1 for models with batch norm, whose "
                  "statistics are those of a micro-batch.",
       .range = Between(0, 1 << 20),
       .only_for = {"strategy.type", {"pipeline", "zero1"}},
       .aliases = {{"num_microbatches n_microbatches chunks", "PyTorch"}}},
      {.DDPRUN_KEY(strategy, layers_per_stage),
       .meaning = "How many of the model's repeated layers each stage has, as [5, 7]; layers "
                  "before them go to the first stage, layers after them to the last. Empty: the "
                  "split that gives the most expensive stage the least work.",
       .only_for = {"strategy.type", {"pipeline", "model_parallel"}}},
  };
}

}  // namespace ddprun::trainer
