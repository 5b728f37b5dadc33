// Training of your own module. Every rank keeps only a part of it.
//
// A deep network learns to return its input; each rank draws its own samples. Parts are cut at
// multiples of 4096 elements, so the layers are large enough for parts of similar sizes.
#include <ATen/Functions.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cstdio>

#include <ddprun/error.h>
#include <ddprun/fully_sharded.h>
#include <ddprun/process_group.h>

constexpr int64_t kWidth = 256;

struct Layer : torch::nn::Module {
  Layer() { linear = register_module("linear", torch::nn::Linear(kWidth, kWidth)); }
  at::Tensor forward(const at::Tensor& x) { return x + at::tanh(linear(x)); }
  torch::nn::Linear linear = nullptr;
};

struct Net : torch::nn::Module {
  Net() {
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < 4; ++i) layers->push_back(std::make_shared<Layer>());
    head = register_module("head", torch::nn::Linear(kWidth, kWidth));
  }
  // Parameters of a layer have memory only while run_block() runs it, and in its backward.
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) x = ddprun::run_block(*layer->as<Layer>(), x);
    return head(x);
  }
  torch::nn::ModuleList layers = nullptr;
  torch::nn::Linear head = nullptr;
};

int Train() {
  const auto group = ddprun::init_process_group();
  ddprun::FullyShardedDataParallel<Net> net(std::make_shared<Net>(), group);
  torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(3e-3));

  int64_t own = 0;
  int64_t whole = 0;
  for (const at::Tensor& part : net.parameters()) own += part.numel();
  at::manual_seed(1 + static_cast<uint64_t>(group->getRank()));
  double loss_now = 0;
  for (int step = 0; step < 300; ++step) {
    const at::Tensor x = at::randn({32, kWidth});
    optimizer.zero_grad();
    const at::Tensor loss = at::mse_loss(net(x), x);
    loss.backward();
    net.clip_grad_norm(1.0);
    optimizer.step();
    loss_now = loss.item<double>();
  }
  double largest = 0;
  net.with_whole_parameters([&] {  // here they can be saved
    for (const at::Tensor& one : net.module().parameters()) {
      whole += one.numel();
      largest = std::max(largest, one.abs().max().item<double>());
    }
  });
  std::printf("rank %d of %d: keeps %lld of %lld parameters, loss %.3f, largest weight %.2f\n",
              group->getRank(), group->getSize(), static_cast<long long>(own),
              static_cast<long long>(whole), loss_now, largest);
  return loss_now < 0.3 ? 0 : 1;
}

int main() {
  try {
    return Train();
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return ddprun::ExitStatus(failure.error().code);
  }
}
