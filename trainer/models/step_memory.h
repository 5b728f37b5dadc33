// Computes the memory of a training step besides parameters, gradients and optimizer state: what
// each layer keeps from forward to backward, and what it needs temporarily. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/models/registry.h"

namespace ddprun::trainer {

// The largest micro-batch.
struct BatchSize {
  int64_t samples = 0;
  int64_t length = 0;        // tokens of the longest sample; others are padded to it
  double tokens = 0;         // of all samples without their padding
  bool bf16 = false;         // training.precision
  bool on_device = false;    // its kernels of attention keep no probabilities
  int64_t tensor_ranks = 1;  // that divide the layers (strategy.tensor_parallel_size)
};

// The memory of one part of the model, in bytes of one rank. Parts are in the order of forward.
struct StageMemory {
  double saved = 0;             // from its forward to its backward
  double forward = 0;           // more, while its forward runs
  double backward = 0;          // more, while its backward runs
  double gradients = 0;         // of its parameters
  double largest_gradient = 0;  // of the largest parameter
  // Gradients that exist from this part's backward to the end of the whole backward, because
  // another part's gradient is added to them.
  double held = 0;
  // The input of a block (Stage::is_block in model.h). Later parts of a block have 0 and
  // continues_block.
  double input = 0;
  bool continues_block = false;
  // Activations and gradients of them that the tensor ranks sum in a step.
  double summed = 0;
};

// Returns the memory of each part. `shape` is from MakeModelShape(). Returns nullopt if only the
// model's own code knows it: plugins, TorchScript.
std::optional<std::vector<StageMemory>> MemoryOfStages(const ModelOptions& model,
                                                       const Model& shape,
                                                       const BatchSize& batch);

// Returns the memory of this model with RecomputeBlocks (model.h).
std::vector<StageMemory> WithRecomputedBlocks(const std::vector<StageMemory>& stages);

// Returns the peak of forward and backward. Counts gradients where backward makes them.
// `in_buckets`: gradients are in existing memory, so that each is only temporary.
double PeakBytes(const std::vector<StageMemory>& stages, bool in_buckets);

}  // namespace ddprun::trainer
