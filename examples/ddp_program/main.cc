// Distributed data-parallel training of your own module, without a config file.
//
// The data is y = x * W with a known W. Every rank has its share of it, and together they find W.
#include <ATen/Functions.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <cstdio>

#include <ddprun/data_parallel.h>
#include <ddprun/error.h>
#include <ddprun/process_group.h>
#include <ddprun/sampler.h>

struct MyModule : torch::nn::Module {
  MyModule() { weight = register_parameter("weight", at::zeros({4, 2})); }
  at::Tensor forward(const at::Tensor& x) { return at::matmul(x, weight); }
  at::Tensor weight;
};

int Train() {
  const auto group = ddprun::init_process_group();

  at::manual_seed(1);  // the same data on all ranks
  const at::Tensor wanted = at::randn({4, 2});
  const at::Tensor inputs = at::randn({256, 4});
  const at::Tensor targets = at::matmul(inputs, wanted);

  ddprun::DistributedDataParallel<MyModule> model(std::make_shared<MyModule>(), group);
  torch::optim::SGD optimizer(model.module().parameters(), /*lr=*/0.3);
  ddprun::DistributedSampler sampler(
      {.dataset_size = 256, .num_replicas = group->getSize(), .rank = group->getRank()});

  for (int epoch = 0; epoch < 100; ++epoch) {
    sampler.set_epoch(epoch);
    const at::Tensor mine = at::tensor(sampler.Indices(), at::kLong);
    optimizer.zero_grad();
    const at::Tensor output = model(inputs.index_select(0, mine));
    const at::Tensor loss = at::mse_loss(output, targets.index_select(0, mine));
    loss.backward();  // then the gradients are the average over all ranks
    optimizer.step();
  }

  const double error = (model.module().weight - wanted).abs().max().item<double>();
  std::printf("rank %d of %d: largest error %.1e\n", group->getRank(), group->getSize(), error);
  return error < 1e-3 ? 0 : 1;
}

int main() {
  try {
    return Train();
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return ddprun::ExitStatus(failure.error().code);
  }
}
