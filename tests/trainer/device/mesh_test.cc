// Gradients averaged between devices while counts, orders and comparisons stay on the host.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "tests/trainer/device/process_group.h"
#include "tests/trainer/device/simulated_device.h"
#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/parallel/module_sync.h"

namespace ddprun::trainer {
namespace {

using Tensors = std::vector<at::Tensor>;

// Weight 2 is used by some ranks in some steps, if `some` allows.
class Net : public torch::nn::Module {
 public:
  explicit Net(c10::Device device) {
    uint64_t seed = 10;
    using Sizes = std::array<int64_t, 2>;
    for (const Sizes& sizes : {Sizes{6, 20}, Sizes{20, 4}, Sizes{20, 4}, Sizes{300, 1000}}) {
      const at::Tensor weight = Random(sizes, seed).mul_(0.3).to(device);
      weights.push_back(register_parameter("weight" + std::to_string(seed++), weight));
    }
    register_buffer("buffer", at::zeros({2}, at::TensorOptions(device)));
  }

  at::Tensor Loss(int rank, int step, bool some) const {
    const at::Tensor x = Random({5, 6}, static_cast<uint64_t>(100 * rank + step + 1));
    const at::Tensor hidden = at::tanh(at::matmul(x.to(weights[0].device()), weights[0]));
    const at::Tensor sum = at::matmul(hidden, weights[1]).pow(2).sum() + weights[3].mul(2).sum();
    if (some && (rank + step) % 3 != 0) return sum;
    return sum + at::matmul(hidden, weights[2]).abs().sum();
  }

  Tensors weights;
};

// Returns the gradients of all steps. Rank r does 20 + r steps.
Tensors Gradients(const Mesh& mesh, const Reducer::Options& options) {
  const Net net(mesh.device);
  ModuleSync sync(net, mesh, {.reducer = options});
  Tensors gradients;
  sync.Join([&] {
    for (int step = 0; step < 20 + mesh.data.rank; ++step) {
      sync.BeforeForward();
      const at::Tensor loss = net.Loss(mesh.data.rank, step, options.find_unused_parameters);
      sync.AfterForward({&loss, 1});
      loss.backward();
      for (const at::Tensor& weight : net.weights) {
        const at::Tensor& gradient = weight.grad();  // nobody's has none
        gradients.push_back(gradient.defined() ? gradient.clone().cpu() : at::zeros({}));
        weight.mutable_grad().reset();
      }
    }
  });
  return gradients;
}

TEST(Mesh, KeepsHostTensorsOffTheGroupOfTheDevice) {
  const auto meeting = std::make_shared<simulated::Meeting>(2);
  WithGroup(2, [&](const auto& group, int rank) {
    const c10::Device device = simulated::DeviceAt(rank);
    const c10::DeviceGuard guard(device);
    Mesh mesh = group;
    mesh.data.group =
        c10::make_intrusive<simulated::SimulatedProcessGroup>(meeting, rank, device.index());
    mesh.data.group->eagerConnectSingleDevice(device);
    mesh.device = device;
    for (const Reducer::Options& options : {Reducer::Options{.tune_limits = true},
                                            Reducer::Options{.find_unused_parameters = true}}) {
      const Tensors expected = Gradients(group, options);
      const Tensors actual = Gradients(mesh, options);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
      }
    }
    mesh.ShutDown();
  });
  EXPECT_EQ(simulated::TakeGroupFaults(), "");
}

}  // namespace
}  // namespace ddprun::trainer
