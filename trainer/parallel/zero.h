// Strategies whose ranks share out the state of one model (ZeRO). Bytes per fp32 parameter with
// Adam on N ranks: kOptimizer 8 + 8/N, kGradients 4 + 12/N and three buckets, kParameters 16/N and
// buckets of two blocks; on several nodes also two blocks' parameters and what belongs to no block.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/parallel/strategy.h"
#include "trainer/parallel/unit_layout.h"

namespace ddprun::trainer {

enum class ZeroStage {
  kOptimizer,   // zero1: each rank updates a part of the parameters; the bits of ddp
  kGradients,   // zero2: and keeps the gradients of that part only
  kParameters,  // zero3: and the parameters of that part
};

struct ZeroOptions {
  ZeroStage stage = ZeroStage::kOptimizer;
  // Of the others: bucket sizes (kGradients), check_finite, buffers, recorder. Without what updates
  // before all gradients are there.
  DataParallelOptions data_parallel = {};
  // Of kParameters: BlocksOf the model.
  std::vector<std::vector<std::string>> blocks = {};
};

// An optimizer of what this rank updates: that of MakeOptimizer with these parameters, names and
// placements.
using MakeShardOptimizer =
    std::function<std::unique_ptr<Optimizer>(const std::vector<Shard>& shards)>;

// As GroupByDecay.
std::vector<ParameterGroup> GroupShards(const std::vector<Shard>& shards,
                                        const std::vector<std::string>& no_decay,
                                        double weight_decay);

// What this rank has of the units' parameters, which are the model's: where ranks have parts of its
// layers, with the places of parts of those.
std::vector<Shard> ShardsOfModel(const Model& model, std::span<const ShardedUnit> units);

// Modules of each of the model's blocks, in their order. `batch`: of any size.
std::vector<std::vector<std::string>> BlocksOf(const Model& model, const Batch& batch);

// Over the mesh's shard axis; gradients are averaged over the whole data axis; `model` may have the
// parts of layers that a rank of the tensor axis has. A collective: checks
// that the models agree and takes rank 0's parameters and buffers. With kParameters the model's
// parameters have memory only while the strategy needs it, or such as is not to be written to, and
// the model's stage hook is the strategy's.
std::unique_ptr<Strategy> MakeZero(std::shared_ptr<Model> model,
                                   const MakeShardOptimizer& make_optimizer,
                                   const Mesh& mesh,
                                   const ZeroOptions& options);

}  // namespace ddprun::trainer
