// A model of given tensors and an optimizer for it: what a strategy is made of.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/strategies/ddp.h"
#include "trainer/strategies/single.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

class GivenModel : public Model {
 public:
  explicit GivenModel(const std::vector<NamedParameter>& parameters,
                      const std::vector<NamedParameter>& buffers = {}) {
    for (const NamedParameter& one : parameters) {
      register_parameter(one.name, one.tensor, one.tensor.requires_grad());
    }
    for (const NamedParameter& one : buffers) register_buffer(one.name, one.tensor);
  }
  at::Tensor Outputs(const Batch& batch) override { return batch.inputs; }
  at::Tensor LossFrom(const at::Tensor& outputs, const Batch&) override { return outputs; }
  std::string ConfigJson() const override { return ""; }
};

inline std::unique_ptr<Optimizer> Sgd(const std::vector<NamedParameter>& parameters) {
  ParameterGroup group;
  for (const NamedParameter& one : parameters) {
    if (!one.tensor.requires_grad()) continue;
    group.parameters.push_back(one.tensor);
    group.names.push_back(one.name);
  }
  return MakeOptimizer({.kind = OptimizerType::kSgd}, {group});
}

inline std::unique_ptr<Strategy> SingleOf(const std::vector<NamedParameter>& parameters) {
  return MakeSingle(std::make_shared<GivenModel>(parameters), Sgd(parameters));
}

inline std::unique_ptr<Strategy> DataParallelOf(const std::vector<NamedParameter>& parameters,
                                                const Mesh& mesh,
                                                const DataParallelOptions& options = {},
                                                const std::vector<NamedParameter>& buffers = {}) {
  return MakeDistributedDataParallel(std::make_shared<GivenModel>(parameters, buffers),
                                     Sgd(parameters), mesh, options);
}

// Forward and backward of one micro-batch or more, whose losses `loss` gives.
inline void Backward(Strategy& strategy,
                     const std::function<at::Tensor(size_t micro_batch)>& loss,
                     size_t micro_batches = 1,
                     double learning_rate = 0) {
  const std::vector<Batch> batches(micro_batches);
  strategy.ForwardBackward({.learning_rate = learning_rate,
                            .micro_batches = batches,
                            .loss = [&](Model&, const Batch&, size_t i) { return loss(i); }});
}

}  // namespace ddprun::trainer
