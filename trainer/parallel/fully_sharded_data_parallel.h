// FullyShardedDataParallel for your own torch::nn::Module: every rank keeps a part of each
// parameter, of its gradient and of the optimizer's state.
//
//   struct Net : torch::nn::Module {
//     at::Tensor forward(at::Tensor x) {
//       for (const auto& layer : *layers) x = ddprun::run_block(*layer->as<Layer>(), x);
//       return head(x);
//     }
//     torch::nn::ModuleList layers;  // each of its modules is a block
//     ...
//   };
//   ddprun::FullyShardedDataParallel<Net> net(std::make_shared<Net>(), group);
//   torch::optim::AdamW optimizer(net.parameters(), 1e-3);
//   for (...) {
//     optimizer.zero_grad();
//     loss(net(input), target).backward();
//     net.clip_grad_norm(1.0);
//     optimizer.step();
//   }
//
// Like PyTorch's fully_shard: the parameters of a block are gathered before its forward and its
// backward, while the block before it runs, and freed after each. Parameters of no block are in
// memory from the beginning of forward until backward has finished with them. While a parameter is
// freed, it has a size but no memory.
//
// Ranks of one node on the CPU instead read each other's parts in place at any time. Writing to the
// module's parameters then ends the process with SIGSEGV.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "trainer/parallel/sharded_module.h"

namespace ddprun {

using trainer::FullyShardedOptions;

// Calls block.forward(x). Within a forward of FullyShardedDataParallel, gathers the block's
// parameters for it. Use the output only within this forward and its backward.
template <typename Block>
at::Tensor run_block(Block& block, const at::Tensor& x) {
  const auto [owner, index] = trainer::ShardedModule::BlockOf(block);
  if (owner == nullptr) return block.forward(x);
  return owner->units().Run(
      index, [&](const at::Tensor& in) { return block.forward(in); }, x);
}

// One thread. All ranks call forward and backward equally often, with the same blocks in them.
template <typename Module>
class FullyShardedDataParallel {
 public:
  // A collective. Takes rank 0's parameters and buffers. A rank never holds other ranks' parts of
  // more than one block. Throws Failure, also if the ranks' models differ. `mesh`: a process group,
  // or several axes.
  FullyShardedDataParallel(std::shared_ptr<Module> module,
                           const trainer::Mesh& mesh,
                           const FullyShardedOptions& options = {})
      : module_(std::move(module)), sharded_(*module_, mesh, options) {}

  // Runs the module's forward. Unless gradients are disabled, a backward must follow; it adds the
  // averages over all ranks to the gradients of parameters(). Both throw Failure.
  template <typename... Inputs>
  auto forward(Inputs&&... inputs) {
    const trainer::ShardedModule::Forward scope(sharded_);
    auto output = module_->forward(std::forward<Inputs>(inputs)...);
    sharded_.AfterForward();
    return output;
  }
  template <typename... Inputs>
  auto operator()(Inputs&&... inputs) {
    return forward(std::forward<Inputs>(inputs)...);
  }

  // Returns this rank's parts as 1-d tensors, for an optimizer that works element by element.
  std::vector<at::Tensor> parameters() {
    std::vector<at::Tensor> parts;
    for (const trainer::Shard& shard : trainer::ShardsOf(sharded_.units().units())) {
      if (shard.values.numel() > 0) parts.push_back(shard.values);
    }
    return parts;
  }
  // Scales the gradients so that their 2-norm over all ranks is at most max_norm. Returns the norm
  // before scaling. A collective.
  double clip_grad_norm(double max_norm) { return sharded_.ClipGradNorm(max_norm); }
  // Runs `body` while all parameters of the module are in memory, to save or to read them. Changes
  // are lost. A collective. Do not call it between forward and backward.
  void with_whole_parameters(const std::function<void()>& body) { sharded_.WithWhole(body); }

  Module& module() { return *module_; }
  const std::shared_ptr<Module>& ptr() { return module_; }

 private:
  const std::shared_ptr<Module> module_;
  trainer::ShardedModule sharded_;
};

}  // namespace ddprun
