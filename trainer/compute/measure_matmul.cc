// Measures matrix products and compares them with float64.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "trainer/compute/matmul_choice.h"

namespace ddprun::trainer {

namespace {

// A layer of a small transformer: x [M, K] W^T [K, N], and the two products of its backward pass.
constexpr int64_t kRows = 512, kIn = 256, kOut = 768;
constexpr int kRounds = 3;
// Rows of the product that are compared with float64. Few are enough.
constexpr int64_t kCheckedRows = 16;

struct Product {
  at::Tensor a, b, out;
};

std::array<Product, 3> Layer() {
  // A generator of its own, so that measuring does not change what training draws.
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const at::Tensor x = at::randn({kRows, kIn}, generator, at::kFloat);
  const at::Tensor weight = at::randn({kOut, kIn}, generator, at::kFloat);
  const at::Tensor gradient = at::randn({kRows, kOut}, generator, at::kFloat);
  return {{{x, weight.t(), at::empty({kRows, kOut})},
           {gradient, weight, at::empty({kRows, kIn})},
           {gradient.t(), x, at::empty({kOut, kIn})}}};
}

double SecondsOf(MatmulEngine engine, std::array<Product, 3>& products) {
  const auto begin = std::chrono::steady_clock::now();
  for (Product& product : products) MultiplyBy(engine, product.a, product.b, product.out);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double ErrorOf(const std::array<Product, 3>& products) {
  double largest = 0;
  for (const Product& product : products) {
    const at::Tensor exact =
        at::mm(product.a.narrow(0, 0, kCheckedRows).to(at::kDouble), product.b.to(at::kDouble));
    const at::Tensor found = product.out.narrow(0, 0, kCheckedRows).to(at::kDouble);
    const at::Tensor error = (found - exact).abs().max() / exact.abs().max();
    largest = std::max(largest, error.item<double>());
  }
  return largest;
}

}  // namespace

std::vector<EngineMeasurement> MeasureEngines() {
  const at::NoGradGuard no_grad;
  std::array<Product, 3> products = Layer();
  std::vector<EngineMeasurement> result = {{.engine = MatmulEngine::kDefault}};
  if (HasOneDnn()) result.push_back({.engine = MatmulEngine::kOneDnn});
  for (EngineMeasurement& each : result) {
    SecondsOf(each.engine, products);  // lets the engine make what it keeps for a shape
    each.error = ErrorOf(products);
  }
  // Takes turns, and keeps the best of each, because other programs disturb single rounds.
  std::vector<double> best(result.size(), 1e9);
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < result.size(); ++i) {
      best[i] = std::min(best[i], SecondsOf(result[i].engine, products));
    }
  }
  constexpr double kOperations = 3 * 2.0 * kRows * kIn * kOut;
  for (size_t i = 0; i < result.size(); ++i) result[i].gflops = kOperations / best[i] / 1e9;
  return result;
}

}  // namespace ddprun::trainer
