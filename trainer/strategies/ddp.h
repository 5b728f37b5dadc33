// The strategy DistributedDataParallel.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <ddprun/comm_hook.h>
#include <ddprun/mesh.h>
#include <ddprun/optimizer.h>
#include "trainer/parallel/module_sync.h"
#include "trainer/parallel/sharded_update.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

struct DataParallelOptions {
  ModuleSync::Options sync = {};
  // The optimizer steps within backward, bucket by bucket.
  bool update_in_backward = false;
  // Also averages the parameters, for the comm_hook of MakePostLocalSgdHook().
  std::optional<PeriodicModelAverager::Options> averaging = {};
  // If > 0, gradients are averages over this many virtual ranks (virtual_ranks.h), and this rank
  // computes its share of them. If the share has n virtual ranks, micro-batch i belongs to number i
  // % n of them. Not together with a comm_hook, averaging, or buffers that differ between ranks.
  int64_t virtual_ranks = 0;
  // If not nullptr, this rank updates only these parameters of the model, and the optimizer has
  // only them (MakeZero). Excludes averaging, and updates before all gradients are there.
  std::shared_ptr<ShardedUpdate> shards = {};
};

// Makes the strategy DistributedDataParallel: every rank has the whole model, and ranks average
// gradients. A collective: checks that the models agree, and copies rank 0's parameters and buffers
// to the other ranks. Later, each step and evaluation copies rank 0's buffers first.
std::unique_ptr<Strategy> MakeDistributedDataParallel(std::shared_ptr<Model> model,
                                                      std::unique_ptr<Optimizer> optimizer,
                                                      const Mesh& mesh,
                                                      const DataParallelOptions& options);

}  // namespace ddprun::trainer
