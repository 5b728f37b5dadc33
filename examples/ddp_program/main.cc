// Distributed data-parallel training of your own module, without a config file.
//
// Every rank draws its share of y = x * W, W known, and all ranks together find W again.
#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <cstdio>
#include <vector>

#include "base/failure.h"
#include "trainer/comm/bootstrap.h"
#include "trainer/data/sampler.h"
#include "trainer/optim/optimizer.h"
#include "trainer/parallel/strategy.h"

using namespace ddprun::trainer;

struct MyModule : torch::nn::Module {
  MyModule() { weight = register_parameter("weight", at::zeros({4, 2})); }
  at::Tensor forward(const at::Tensor& x) { return at::matmul(x, weight); }
  at::Tensor weight;
};

int Train(const ddprun::Environment& environment) {
  const auto group = InitProcessGroup(environment, std::chrono::seconds(60));

  at::manual_seed(1);  // the same data on all ranks
  const at::Tensor wanted = at::randn({4, 2});
  const at::Tensor inputs = at::randn({256, 4});
  const at::Tensor targets = at::matmul(inputs, wanted);

  MyModule model;
  std::vector<NamedParameter> parameters;
  for (const auto& item : model.named_parameters()) {
    parameters.push_back({item.key(), item.value()});
  }
  const auto ddp = MakeDistributedDataParallel(parameters, {}, group, Reducer::Options{});
  const auto optimizer = MakeOptimizer({.kind = OptimizerOptions::Kind::kSgd},
                                       {{.parameters = model.parameters(), .weight_decay = 0}});
  DistributedSampler sampler(
      {.dataset_size = 256, .num_replicas = group->getSize(), .rank = group->getRank()});

  for (int epoch = 0; epoch < 100; ++epoch) {
    sampler.set_epoch(epoch);
    const at::Tensor mine = at::tensor(sampler.Indices(), at::kLong);
    ddp->BeginStep();
    ddp->PrepareBackward(/*last=*/true);
    const at::Tensor output = model.forward(inputs.index_select(0, mine));
    const at::Tensor loss = at::mse_loss(output, targets.index_select(0, mine));
    loss.backward();  // the gradients are those of all ranks when this returns
    optimizer->Step(/*learning_rate=*/0.3);
  }

  const double error = (model.weight - wanted).abs().max().item<double>();
  std::printf("rank %d of %d: largest error %.1e\n", group->getRank(), group->getSize(), error);
  return error < 1e-3 ? 0 : 1;
}

int main() {
  const ddprun::Environment environment = ddprun::Environment::OfProcess();
  try {
    return Train(environment);
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return ddprun::ExitStatus(failure.error().code);
  }
}
