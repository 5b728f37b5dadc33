// What a training step needs beside parameters, gradients and optimizer state, by formulas: what
// each layer keeps from forward to backward, and what it needs for a moment. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/models/registry.h"

namespace ddprun::trainer {

// The largest micro-batch.
struct BatchSize {
  int64_t samples = 0;
  int64_t length = 0;        // tokens of the longest sample, to which the others are padded
  double tokens = 0;         // of all samples without their padding
  bool bf16 = false;         // training.precision
  int64_t tensor_ranks = 1;  // that share the layers (strategy.tensor_parallel_size)
};

// Of a part of the model, in the order of forward. Bytes, of one rank.
struct StageMemory {
  double saved = 0;             // from its forward to its backward
  double forward = 0;           // more, while its forward runs
  double backward = 0;          // more, while its backward runs
  double gradients = 0;         // of its parameters
  double largest_gradient = 0;  // of one of them
  // Gradients that exist from its backward to the end of the whole, though others sum them up.
  double held = 0;
  // What a block takes (Stage::is_block in model.h); of its later parts 0, with continues_block.
  double input = 0;
  bool continues_block = false;
  // Activations and their gradients that the tensor ranks sum up among each other, in a step.
  double summed = 0;
};

// `shape`: of MakeModelShape. nullopt where only the model's own code knows: plugins, TorchScript.
std::optional<std::vector<StageMemory>> MemoryOfStages(const ModelOptions& model,
                                                       const Model& shape,
                                                       const BatchSize& batch);

// The same model with RecomputeBlocks (model.h).
std::vector<StageMemory> WithRecomputedBlocks(const std::vector<StageMemory>& stages);

// The most that forward and backward need at once. Gradients belong to it where backward makes
// them; `in_buckets`: they lie in memory that exists already, and are only passed through.
double PeakBytes(const std::vector<StageMemory>& stages, bool in_buckets);

}  // namespace ddprun::trainer
