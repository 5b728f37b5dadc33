// Keys of models whose layers are distributed over devices or ranks.
#include "trainer/config/key_table.h"

namespace ddprun::trainer {

std::vector<Key> PipelineKeys() {
  return {
      {.DDPRUN_KEY(strategy, pipeline_parallel_size),
       .meaning = "Stages that share out the layers of each replica of the model, each of one rank "
                  "or of strategy.tensor_parallel_size; the others are replicas, as with ddp or "
                  "zero1. 0: all ranks with pipeline, otherwise 1.",
       .range = Between(0, 4096),
       .only_for = {"strategy.type", {"pipeline", "zero1"}},
       .aliases = {{"pipeline_parallel_degree pp pp_size", "torchtitan"},
                   {"pipeline_model_parallel_size", "Megatron"}}},
      {.DDPRUN_KEY(strategy, pipeline_schedule),
       .meaning = "In what order a stage computes: \"1f1b\" does a backward as soon as there is "
                  "one and keeps the activations of few micro-batches; \"gpipe\" does all forwards "
                  "first and keeps those of all. Both wait equally long.",
       .only_for = {"strategy.type", {"pipeline", "zero1"}},
       .aliases = {{"pipeline_parallel_schedule pp_schedule", "torchtitan"}}},
      {.DDPRUN_KEY(strategy, pipeline_micro_batches),
       .meaning = "How many micro-batches each batch of training.per_device_train_batch_size is "
                  "split into. 0: as many as give a step two for each stage, those of "
                  "training.gradient_accumulation_steps counted; 1 for models with batch norm, "
                  "whose statistics are those of a micro-batch.",
       .range = Between(0, 1 << 20),
       .only_for = {"strategy.type", {"pipeline", "zero1"}},
       .aliases = {{"num_microbatches n_microbatches chunks", "PyTorch"}}},
      {.DDPRUN_KEY(strategy, layers_per_stage),
       .meaning = "How many of the model's repeated layers each stage has: [5, 7]; what is before "
                  "them goes to the first stage, what is behind them to the last. Empty: so that "
                  "the stage with most to compute has as little as can be.",
       .only_for = {"strategy.type", {"pipeline", "model_parallel"}}},
  };
}

}  // namespace ddprun::trainer
