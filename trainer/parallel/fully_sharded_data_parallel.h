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
// As PyTorch's fully_shard: a block's parameters are gathered before its forward and its backward,
// the next block's meanwhile, and freed after each; what belongs to no block is there from the
// beginning of forward until backward is through with it. In between the module's parameters have
// sizes, but no memory. Ranks of one node instead read each other's parts in place at any time;
// who writes to the module's parameters there ends by SIGSEGV.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "trainer/parallel/sharded_module.h"

namespace ddprun {

using trainer::FullyShardedOptions;

// block.forward(x), within a forward of FullyShardedDataParallel with the block's parameters;
// elsewhere that alone. Outputs are to be used within the same forward and its backward.
template <typename Block>
at::Tensor run_block(Block& block, const at::Tensor& x) {
  const auto [owner, index] = trainer::ShardedModule::BlockOf(block);
  if (owner == nullptr) return block.forward(x);
  return owner->units().Run(
      index, [&](const at::Tensor& in) { return block.forward(in); }, x);
}

// One thread, the same on all ranks' programs: all ranks call forward and backward equally often,
// with the same blocks in them.
template <typename Module>
class FullyShardedDataParallel {
 public:
  // A collective. Takes rank 0's parameters and buffers; no rank ever has more of the others' than
  // one block. Throws Failure, where models differ also. `mesh`: a process group, or several axes.
  FullyShardedDataParallel(std::shared_ptr<Module> module,
                           const trainer::Mesh& mesh,
                           const FullyShardedOptions& options = {})
      : module_(std::move(module)), sharded_(*module_, mesh, options) {}

  // The module's forward. Without gradients disabled a backward has to follow; it adds the averages
  // over all ranks to the gradients of parameters(). Throws Failure; so does that backward.
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

  // This rank's parts, of one dimension: for an optimizer that works element by element.
  std::vector<at::Tensor> parameters() {
    std::vector<at::Tensor> parts;
    for (const trainer::Shard& shard : trainer::ShardsOf(sharded_.units().units())) {
      if (shard.values.numel() > 0) parts.push_back(shard.values);
    }
    return parts;
  }
  // Scales the gradients so that their 2-norm over all ranks is at most max_norm; returns the norm
  // from before. A collective.
  double clip_grad_norm(double max_norm) { return sharded_.ClipGradNorm(max_norm); }
  // Runs `body` while all parameters of the module are there, to save or to read them; changes are
  // lost. A collective; not between forward and backward.
  void with_whole_parameters(const std::function<void()>& body) { sharded_.WithWhole(body); }

  Module& module() { return *module_; }
  const std::shared_ptr<Module>& ptr() { return module_; }

 private:
  const std::shared_ptr<Module> module_;
  trainer::ShardedModule sharded_;
};

}  // namespace ddprun
