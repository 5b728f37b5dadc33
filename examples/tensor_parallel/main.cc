// A block of two linear layers that are split among the ranks, without a config file.
//
// All ranks have the same batch. The first layer is split by its outputs, the second by its inputs,
// which are the first layer's outputs. So the ranks send nothing between the two layers.
#include <ATen/Functions.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <cstdio>

#include <ddprun/error.h>
#include <ddprun/process_group.h>
#include <ddprun/tensor_parallel.h>

struct Block : torch::nn::Module {
  explicit Block(const ddprun::Axis& axis)
      : up(register_module("up", ddprun::ColumnParallelLinear(axis, 16, 64))),
        down(register_module("down", ddprun::RowParallelLinear(axis, 64, 8))) {}
  at::Tensor forward(const at::Tensor& x) { return down(at::relu(up(x))); }
  ddprun::ColumnParallelLinear up;
  ddprun::RowParallelLinear down;
};

int Train() {
  const auto group = ddprun::init_process_group();
  const bool first = group->getRank() == 0;
  // With {.tensor = 2} and four ranks, two ranks would have each part. Then
  // ddprun::DistributedDataParallel over the mesh would average their gradients.
  const auto mesh = ddprun::MakeMesh(group, {.tensor = group->getSize()});

  at::manual_seed(1);  // the same weights and data on all ranks
  Block block(mesh.tensor);
  const at::Tensor inputs = at::randn({4, 32, 16});
  const at::Tensor targets = at::tanh(at::randn({4, 32, 8}));
  torch::optim::SGD optimizer(block.parameters(), /*lr=*/0.5);

  double begin = 0, end = 0;
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = at::mse_loss(block.forward(inputs), targets);
    loss.backward();
    optimizer.step();
    end = loss.item<double>();
    if (step == 0) begin = end;
    if (first) std::printf("step %d: loss %.8f\n", step + 1, end);
  }
  return end < begin ? 0 : 1;
}

int main() {
  try {
    return Train();
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return ddprun::ExitStatus(failure.error().code);
  }
}
