// What FullyShardedDataParallel does around a module's forward, for a module of any type.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/parallel/gathered_units.h"
#include "trainer/parallel/module_sync.h"
#include "trainer/parallel/sharded_gradients.h"

namespace ddprun::trainer {

struct FullyShardedOptions {
  // Submodules by name ("layers.0"), in the order of forward: the parameters of each are gathered
  // for themselves. Empty: the children of every ModuleList and Sequential.
  std::vector<std::string> blocks = {};
  bool broadcast_buffers = true;  // rank 0's, before every forward with gradients
};

// One thread.
class ShardedModule {
 public:
  // A collective; throws Failure for a block that the module does not have.
  ShardedModule(const torch::nn::Module& module,
                const Mesh& mesh,
                const FullyShardedOptions& options);

  // While it lives, a forward goes on: BlockOf knows this module's blocks on this thread.
  class Forward {
   public:
    explicit Forward(ShardedModule& module);
    ~Forward();
    Forward(const Forward&) = delete;
    Forward& operator=(const Forward&) = delete;

   private:
    ShardedModule* const outer_;  // whose forward this one's is a part of
  };
  void AfterForward();
  // The wrapped module whose forward goes on, and which of its blocks this is; nullptr: none.
  struct Block {
    ShardedModule* owner = nullptr;
    size_t index = 0;
  };
  static Block BlockOf(const torch::nn::Module& module);
  GatheredUnits& units() { return *units_; }
  ShardedGradients& gradients() { return *gradients_; }
  double ClipGradNorm(double max_norm);
  void WithWhole(const std::function<void()>& body);

 private:
  void BeforeForward();
  void FindBlocks(const torch::nn::Module& module, std::vector<std::string> names);

  const Mesh mesh_;
  const ModuleTensors tensors_;
  const bool broadcast_buffers_;
  std::map<const torch::nn::Module*, size_t> block_of_;
  std::vector<std::vector<size_t>> blocks_;
  std::optional<GatheredUnits> units_;
  std::optional<ShardedGradients> gradients_;
};

}  // namespace ddprun::trainer
