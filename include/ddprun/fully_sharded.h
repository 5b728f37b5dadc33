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

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ddprun/mesh.h>

namespace torch::nn {
class Module;
}

namespace ddprun {

namespace trainer {
class ShardedModule;
}

// The blocks of a module.
struct FullyShardedOptions {
  // The blocks: names of submodules ("layers.0"), in the order of forward. Each block's parameters
  // are gathered separately. Empty: the children of every ModuleList and Sequential.
  std::vector<std::string> blocks = {};
  bool broadcast_buffers = true;  // from rank 0, before every forward with gradients
};

// Calls `forward` with x. Within a forward of FullyShardedDataParallel, gathers the parameters of
// `block` for it. Throws Failure.
at::Tensor run_block(const torch::nn::Module& block,
                     const at::Tensor& x,
                     const std::function<at::Tensor(const at::Tensor& x)>& forward);

// Calls block.forward(x). Within a forward of FullyShardedDataParallel, gathers the block's
// parameters for it. Use the output only within this forward and its backward.
template <typename Block>
at::Tensor run_block(Block& block, const at::Tensor& x) {
  return run_block(block, x, [&](const at::Tensor& in) { return block.forward(in); });
}

// What FullyShardedDataParallel does for a module of any type. One thread.
class FullyShardedBase {
 public:
  // Leaves the module's parameters empty: save them before, in with_whole_parameters().
  ~FullyShardedBase();
  FullyShardedBase(const FullyShardedBase&) = delete;
  FullyShardedBase& operator=(const FullyShardedBase&) = delete;

  // Returns this rank's parts as 1-d tensors, for an optimizer that works element by element.
  std::vector<at::Tensor> parameters();
  // Scales the gradients so that their 2-norm over all ranks is at most max_norm. Returns the norm
  // before scaling. A collective.
  double clip_grad_norm(double max_norm);
  // Runs `body` while all parameters of the module are in memory, to save or to read them. Changes
  // are lost. A collective. Do not call it between forward and backward.
  void with_whole_parameters(const std::function<void()>& body);

 protected:
  FullyShardedBase(const torch::nn::Module& module,
                   const Mesh& mesh,
                   const FullyShardedOptions& options);
  // Gathers the parameters of no block. The forward runs while the returned object lives.
  std::shared_ptr<void> BeginForward();
  void AfterForward();

 private:
  const std::unique_ptr<trainer::ShardedModule> sharded_;
};

// One thread. All ranks call forward and backward equally often, with the same blocks in them.
template <typename Module>
class FullyShardedDataParallel : public FullyShardedBase {
 public:
  // A collective. Takes rank 0's parameters and buffers. A rank never holds other ranks' parts of
  // more than one block. Throws Failure, also if the ranks' models differ. `mesh`: a process group,
  // or several axes.
  FullyShardedDataParallel(std::shared_ptr<Module> module,
                           const Mesh& mesh,
                           const FullyShardedOptions& options = {})
      : FullyShardedBase(*module, mesh, options), module_(std::move(module)) {}

  // Runs the module's forward. Unless gradients are disabled, a backward must follow; it adds the
  // averages over all ranks to the gradients of parameters(). Both throw Failure.
  template <typename... Inputs>
  auto forward(Inputs&&... inputs) {
    const auto scope = BeginForward();
    auto output = module_->forward(std::forward<Inputs>(inputs)...);
    AfterForward();
    return output;
  }
  template <typename... Inputs>
  auto operator()(Inputs&&... inputs) {
    return forward(std::forward<Inputs>(inputs)...);
  }

  Module& module() { return *module_; }
  const std::shared_ptr<Module>& ptr() { return module_; }

 private:
  const std::shared_ptr<Module> module_;
};

}  // namespace ddprun
