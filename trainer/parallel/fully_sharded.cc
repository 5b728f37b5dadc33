#include <ddprun/fully_sharded.h>
#include "trainer/parallel/sharded_module.h"

namespace ddprun {

using trainer::ShardedModule;

at::Tensor run_block(const torch::nn::Module& block,
                     const at::Tensor& x,
                     const std::function<at::Tensor(const at::Tensor& x)>& forward) {
  const auto [owner, index] = ShardedModule::BlockOf(block);
  return owner == nullptr ? forward(x) : owner->units().Run(index, forward, x);
}

FullyShardedBase::FullyShardedBase(const torch::nn::Module& module,
                                   const Mesh& mesh,
                                   const FullyShardedOptions& options)
    : sharded_(std::make_unique<ShardedModule>(module, mesh, options)) {}

FullyShardedBase::~FullyShardedBase() = default;

std::shared_ptr<void> FullyShardedBase::BeginForward() {
  return std::make_shared<ShardedModule::Forward>(*sharded_);
}

void FullyShardedBase::AfterForward() {
  sharded_->AfterForward();
}

std::vector<at::Tensor> FullyShardedBase::parameters() {
  std::vector<at::Tensor> parts;
  for (const trainer::Shard& shard : trainer::ShardsOf(sharded_->units().units())) {
    if (shard.values.numel() > 0) parts.push_back(shard.values);
  }
  return parts;
}

double FullyShardedBase::clip_grad_norm(double max_norm) {
  return sharded_->ClipGradNorm(max_norm);
}

void FullyShardedBase::with_whole_parameters(const std::function<void()>& body) {
  sharded_->WithWhole(body);
}

}  // namespace ddprun
