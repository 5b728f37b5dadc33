// The work of FullyShardedDataParallel around a module's forward, for a module of any type.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ddprun/fully_sharded.h>
#include "trainer/parallel/gathered_units.h"
#include "trainer/parallel/module_sync.h"
#include "trainer/parallel/sharded_gradients.h"

namespace ddprun::trainer {

// One thread.
class ShardedModule {
 public:
  // A collective. Throws Failure for a block that the module does not have.
  ShardedModule(const torch::nn::Module& module,
                const Mesh& mesh,
                const FullyShardedOptions& options);
  // Leaves the module's parameters empty, [0]: their memory goes.
  ~ShardedModule();
  ShardedModule(const ShardedModule&) = delete;
  ShardedModule& operator=(const ShardedModule&) = delete;

  // Marks a running forward while it lives: BlockOf() then finds blocks of this module and thread.
  class Forward {
   public:
    explicit Forward(ShardedModule& module);
    ~Forward();
    Forward(const Forward&) = delete;
    Forward& operator=(const Forward&) = delete;

   private:
    ShardedModule* const outer_;  // the module whose forward contains this one
  };
  void AfterForward();
  // The wrapped module whose forward runs, and the index of the block in it. nullptr means none.
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
