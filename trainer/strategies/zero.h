// Strategies whose ranks divide the state of one model (ZeRO). Bytes per fp32 parameter with Adam
// on N ranks: kOptimizer 8 + 8/N; kGradients 4 + 12/N, and three buckets; kParameters 16/N, and
// buckets of two blocks. On several nodes, kParameters also needs two blocks' parameters and the
// parameters of no block.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/parallel/unit_layout.h"
#include "trainer/strategies/ddp.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

enum class ZeroStage {
  kOptimizer,   // zero1: each rank updates a part of the parameters; the bits of ddp
  kGradients,   // zero2: and keeps only this part's gradients
  kParameters,  // zero3: and only this part's parameters
};

struct ZeroOptions {
  ZeroStage stage = ZeroStage::kOptimizer;
  // kOptimizer uses all of these. The other stages use the bucket sizes (kGradients), check_finite,
  // buffers, recorder and rejoins. Not together with updates before all gradients are there.
  DataParallelOptions data_parallel = {};
  // For kParameters: the result of BlocksOf().
  std::vector<std::vector<std::string>> blocks = {};
};

// Makes the optimizer of this rank's shards with their names and placements; see MakeOptimizer().
using MakeShardOptimizer =
    std::function<std::unique_ptr<Optimizer>(const std::vector<Shard>& shards)>;

// Groups shards as GroupByDecay() does.
std::vector<ParameterGroup> GroupShards(const std::vector<Shard>& shards,
                                        const std::vector<std::string>& no_decay,
                                        double weight_decay);

// Returns the slices of parameters that this rank keeps, each with its place in the whole
// parameter, also under tensor parallelism.
std::vector<Shard> ShardsOfModel(const Model& model, std::span<const ShardedUnit> units);

// Returns the modules of each of the model's blocks, in their order. `batch` may have any size.
std::vector<std::vector<std::string>> BlocksOf(const Model& model, const Batch& batch);

// Makes a strategy that divides the state over the mesh's shard axis, and averages gradients over
// the whole data axis. `model` may be a tensor rank's part of a model. A collective, except with
// `rejoins`: checks that the models agree and takes rank 0's parameters and buffers.
//
// With kParameters, the model's parameters have memory only while the strategy needs them, or
// read-only memory, and the strategy sets the model's stage hook.
std::unique_ptr<Strategy> MakeZero(std::shared_ptr<Model> model,
                                   const MakeShardOptimizer& make_optimizer,
                                   const Mesh& mesh,
                                   const ZeroOptions& options);

}  // namespace ddprun::trainer
