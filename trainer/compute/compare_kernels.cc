#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/sin.h>

#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <vector>

#include "trainer/compute/device_kernels.h"
#include "trainer/compute/operations.h"
#include "trainer/compute/precision.h"

namespace ddprun::trainer {

namespace {

constexpr int64_t kRows = 37;       // more than one processor has blocks of a norm's rows
constexpr int64_t kInputs = 16;     // of the last layer
constexpr int64_t kClasses = 1003;  // rows of scores that two warps of a kernel share
constexpr int64_t kWidth = 528;     // rows of a norm that two warps share
constexpr int64_t kNotCounted = 5;  // one of so many targets does not count

struct Comparison {
  const char* name;
  std::vector<at::Tensor> (*compute)(c10::Device device);  // results and gradients
};

// Returns numbers between -1 and 1 that look random.
at::Tensor Numbers(c10::IntArrayRef sizes, double frequency, c10::Device device) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  const at::Tensor steps = at::arange(count, at::device(device).dtype(at::kDouble));
  return at::sin(steps * steps * frequency).to(at::kFloat).view(sizes);
}

at::Tensor Leaf(c10::IntArrayRef sizes, double frequency, c10::Device device) {
  return Numbers(sizes, frequency, device).requires_grad_();
}

std::vector<at::Tensor> GradientsOf(const at::Tensor& loss,
                                    std::initializer_list<at::Tensor> leaves) {
  const at::AutoGradMode enabled(true);
  loss.backward();
  std::vector<at::Tensor> all = {loss.detach()};
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

std::vector<at::Tensor> Losses(c10::Device device, double smoothing) {
  const at::Tensor hidden = Leaf({kRows, kInputs}, 0.37, device);
  const at::Tensor weight = Leaf({kClasses, kInputs}, 0.61, device);
  at::Tensor targets = at::arange(kRows, at::device(device).dtype(at::kLong)) * 31 % kClasses;
  targets = targets.masked_fill(targets.remainder(kNotCounted).eq(0), -100);
  const at::Tensor loss = LinearCrossEntropy(hidden, weight, targets, smoothing);
  return GradientsOf(loss, {hidden, weight});
}

std::vector<at::Tensor> Norms(c10::Device device, bool centers, bool keeps_sum) {
  const at::Tensor x = Leaf({kRows, kWidth}, 0.37, device);
  const at::Tensor addend = Leaf({kRows, kWidth}, 0.53, device);
  const at::Tensor weight = Leaf({kWidth}, 0.71, device);
  const at::Tensor bias = centers ? Leaf({kWidth}, 0.83, device) : at::Tensor();
  const NormLayer layer = {weight, bias, 1e-5, centers};
  const at::Tensor narrow = addend.to(ComputeType());
  const ResidualAndNorm found =
      keeps_sum ? NormOfSum(x, narrow, layer) : NormedSum(x, narrow, layer, true);
  const at::Tensor loss = (found.residual * Numbers({kRows, kWidth}, 0.29, device)).sum() +
                          (found.normed * Numbers({kRows, kWidth}, 0.43, device)).sum();
  std::vector<at::Tensor> all = GradientsOf(loss, {x, addend, weight});
  if (centers) all.push_back(bias.grad());
  all.push_back(found.residual.detach());
  all.push_back(found.normed.detach());
  return all;
}

constexpr Comparison kComparisons[] = {
    {"the loss", [](c10::Device device) { return Losses(device, 0); }},
    {"the loss with smoothing", [](c10::Device device) { return Losses(device, 0.1); }},
    {"a residual's norm", [](c10::Device device) { return Norms(device, true, true); }},
    {"a norm as residual", [](c10::Device device) { return Norms(device, true, false); }},
    {"a residual's RMSNorm", [](c10::Device device) { return Norms(device, false, true); }},
};

// Returns the largest difference between the numbers of two tensors as a part of the largest
// number; NaN if there is one in either.
double Difference(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor exact = expected.to(at::kDouble);
  return ((found.to(at::kDouble) - exact).abs().max() / exact.abs().max()).item<double>();
}

}  // namespace

std::string CompareWithAten(const std::shared_ptr<DeviceKernels>& kernels, c10::Device device) {
  // ATen's way rounds at other places: at most some steps of 16-bit numbers apart.
  const double most = kernels->type() == at::kFloat ? 1e-4 : 0.03;
  const PrecisionScope scope(ComputePrecision{.type = kernels->type()});
  std::string text;
  kernels->UseProcessors(1);  // a block computes several rows, as in a real step
  for (const Comparison& comparison : kComparisons) {
    UseDeviceKernels(nullptr);
    const std::vector<at::Tensor> expected = comparison.compute(device);
    UseDeviceKernels(kernels);
    const std::vector<at::Tensor> found = comparison.compute(device);
    UseDeviceKernels(nullptr);
    for (size_t i = 0; i < found.size() && text.empty(); ++i) {
      const double difference = Difference(found[i], expected[i]);
      if (difference <= most) continue;
      char number[32];
      std::snprintf(number, sizeof number, "%.2g", std::abs(difference));
      text = std::string("tensor ") + std::to_string(i) + " of " + comparison.name +
             " differs from ATen's by " + number + " of its largest number";
    }
  }
  kernels->UseProcessors(0);
  return text;
}

}  // namespace ddprun::trainer
