// A training run of a strategy on ranks that are threads, compared with that of one process.
#pragma once

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/models/registry.h"
#include "trainer/strategies/ddp.h"
#include "trainer/strategies/single.h"
#include "trainer/strategies/zero.h"

namespace ddprun::trainer {

// In float64: an embedding that is the last layer, too, and blocks larger than a norm's.
class TiedModel : public Model {
 public:
  explicit TiedModel(int blocks = 3) {
    table_ = Add("embedding", {40, 90});
    for (int i = 0; i < blocks; ++i) {
      const std::string name = "blocks" + std::to_string(i);
      blocks_.push_back({Add(name, {90, 90}), Add(name + "_bias", {90})});
    }
    bias_ = Add("bias", {40});
    mean_ = register_buffer("mean", at::zeros({90}, at::kDouble));
  }
  std::vector<Stage> Stages(const Batch&) const override {
    std::vector<Stage> stages = {
        {{"embedding"}, [this](const at::Tensor& x) { return at::embedding(table_, x); }}};
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const std::string name = "blocks" + std::to_string(i);
      const auto forward = [this, i](const at::Tensor& x) {
        const auto& [weight, bias] = blocks_[i];
        return x + at::tanh(at::matmul(x, weight) + bias);
      };
      stages.push_back({{name, name + "_bias"}, forward, /*is_block=*/true});
    }
    const auto head = [this](const at::Tensor& x) {
      if (is_training()) mean_.add_(x.detach().mean(0));
      return at::matmul(x, table_.t()) + bias_;
    };
    stages.push_back({{"bias"}, head});
    return stages;
  }
  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) override {
    return at::cross_entropy_loss(outputs, batch.targets);
  }
  std::string ConfigJson() const override { return ""; }

 private:
  at::Tensor Add(const std::string& name, at::IntArrayRef sizes) {
    const auto scope = register_module(name, std::make_shared<torch::nn::Module>());
    return scope->register_parameter("weight", at::zeros(sizes, at::kDouble));
  }

  at::Tensor table_;
  std::vector<std::pair<at::Tensor, at::Tensor>> blocks_;
  at::Tensor bias_;
  at::Tensor mean_;
};

struct ZeroCase {
  // single, ddp, or zero1 to zero3.
  enum class Kind { kSingle, kDdp, kZero1, kZero2, kZero3 };
  Kind kind = Kind::kSingle;
  int ranks = 1;
  int shard = 0;  // 0 means all ranks
  OptimizerOptions optimizer = {};
  double max_norm = 0.5;
  bool recompute = false;
  bool copies = false;  // true: ranks copy parameters, as between nodes (CopyingGroup)
  DataParallelOptions data_parallel = {.sync = {.reducer = {.limits = {.cap_bytes = 60'000}}}};
};

// Forwards to `group`, but without memory that ranks read in place, as between nodes.
class CopyingGroup final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  explicit CopyingGroup(c10::intrusive_ptr<c10d::Backend> group)
      : Backend(group->getRank(), group->getSize()), group_(std::move(group)) {}

  const std::string getBackendName() const override { return "copying"; }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return group_->allreduce(tensors, options);
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return group_->broadcast(tensors, options);
  }
  WorkPtr _allgather_base(at::Tensor& output,
                          at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    return group_->_allgather_base(output, input, options);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output,
                               at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    return group_->_reduce_scatter_base(output, input, options);
  }

 private:
  const c10::intrusive_ptr<c10d::Backend> group_;
};

// The mesh with such groups.
inline Mesh Copying(Mesh mesh) {
  for (Axis* axis : {&mesh.data, &mesh.shard, &mesh.replica}) {
    if (axis->group != nullptr) axis->group = c10::make_intrusive<CopyingGroup>(axis->group);
  }
  return mesh;
}

inline std::unique_ptr<Strategy> StrategyOf(const ZeroCase& variant,
                                            const std::shared_ptr<Model>& model,
                                            const Mesh& mesh,
                                            const Batch& batch) {
  using Kind = ZeroCase::Kind;
  const auto optimizer = [&](const std::vector<Shard>& shards) {
    return MakeOptimizer(variant.optimizer, GroupShards(shards, {"bias"}, 0.1));
  };
  std::vector<Shard> whole;
  for (const NamedParameter& one : ModuleTensors(*model).trained) {
    whole.push_back({one.name, one.tensor, {}});
  }
  if (variant.recompute) RecomputeBlocks(*model);
  if (variant.kind == Kind::kSingle) return MakeSingle(model, optimizer(whole));
  if (variant.kind == Kind::kDdp) {
    return MakeDistributedDataParallel(model, optimizer(whole), mesh, variant.data_parallel);
  }
  const auto stage =
      static_cast<ZeroStage>(static_cast<int>(variant.kind) - static_cast<int>(Kind::kZero1));
  return MakeZero(
      model, optimizer, mesh,
      {.stage = stage, .data_parallel = variant.data_parallel, .blocks = BlocksOf(*model, batch)});
}

}  // namespace ddprun::trainer
