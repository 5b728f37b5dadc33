// The simulated device computes the CPU's bits, without waits of the host.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tests/trainer/device/simulated_device.h"

namespace ddprun::simulated {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors Parameters(const std::vector<std::vector<int64_t>>& sizes, c10::Device device) {
  at::manual_seed(7);
  Tensors parameters;
  for (const auto& size : sizes) {
    parameters.push_back(at::randn(size).mul_(0.2).to(device).set_requires_grad(true));
  }
  return parameters;
}

at::Tensor Inputs(std::vector<int64_t> sizes, uint64_t seed, c10::Device device) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed)).to(device);
}

// Plain operations; fused ones have a test of their own.
void AdamW(const Tensors& parameters, Tensors* first, Tensors* second, int step) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (first->size() <= i) {
      first->push_back(at::zeros_like(parameters[i]));
      second->push_back(at::zeros_like(parameters[i]));
    }
    const at::Tensor& gradient = parameters[i].grad();
    parameters[i].mul_(1 - 0.01 * 0.1);
    (*first)[i].lerp_(gradient, 0.1);
    (*second)[i].mul_(0.999).addcmul_(gradient, gradient, 0.001);
    const at::Tensor root = ((*second)[i] / (1 - std::pow(0.999, step))).sqrt_().add_(1e-8);
    parameters[i].addcdiv_((*first)[i], root, -0.01 / (1 - std::pow(0.9, step)));
    parameters[i].mutable_grad().reset();
  }
}

using Loss = std::function<at::Tensor(const Tensors&, int step, c10::Device)>;

Tensors Trained(const std::vector<std::vector<int64_t>>& sizes,
                const Loss& loss,
                c10::Device device) {
  const Tensors parameters = Parameters(sizes, device);
  at::Generator generator = at::globalContext().defaultGenerator(device);
  generator.set_current_seed(11);
  Tensors first, second, results;
  for (int step = 1; step <= 5; ++step) {
    const at::Tensor one = loss(parameters, step, device);
    one.backward();
    results.push_back(one.detach());
    AdamW(parameters, &first, &second, step);
  }
  for (const at::Tensor& one : parameters) results.push_back(one.detach());
  for (at::Tensor& one : results) one = one.cpu();
  return results;
}

void ExpectTheCpusBits(const std::vector<std::vector<int64_t>>& sizes, const Loss& loss) {
  const Tensors expected = Trained(sizes, loss, c10::kCPU);
  TakeInOrderOperations();
  const Tensors actual = Trained(sizes, loss, DeviceAt(1));
  EXPECT_EQ(TakeInOrderOperations(), std::vector<std::string>());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
    EXPECT_TRUE(at::isfinite(expected[i]).all().item<bool>()) << i;
  }
}

at::Tensor Mlp(const Tensors& p, int step, c10::Device device) {
  at::Tensor x = Inputs({8, 12}, static_cast<uint64_t>(step), device);
  x = at::relu(at::linear(x, p[0], p[1]));
  return at::mse_loss(at::linear(x, p[2], p[3]),
                      Inputs({8, 4}, static_cast<uint64_t>(100 + step), device));
}

const std::vector<std::vector<int64_t>> kMlp = {{16, 12}, {16}, {4, 16}, {4}};

constexpr int64_t kWidth = 16, kVocabulary = 20;

// Embedding, attention, dropout, layer norms, cross entropy.
at::Tensor Transformer(const Tensors& p, int step, c10::Device device) {
  const at::Tensor tokens =
      (at::arange(3 * 6).view({3, 6}) * (step + 3)).remainder(kVocabulary).to(device);
  at::Tensor x = at::dropout(at::embedding(p[0], tokens), 0.1, true);
  const at::Tensor normed = at::layer_norm(x, {kWidth}, p[1], p[2]);
  const auto qkv = at::linear(normed, p[3]).view({3, 6, 3, 2, 8}).permute({2, 0, 3, 1, 4});
  const at::Tensor scores = at::matmul(qkv[0], qkv[1].transpose(-2, -1)) / std::sqrt(8.0);
  const at::Tensor mask = at::ones({6, 6}, tokens.options().dtype(at::kBool)).triu(1);
  const at::Tensor weights = at::softmax(scores.masked_fill(mask, -INFINITY), -1);
  const at::Tensor heads = at::matmul(at::dropout(weights, 0.1, true), qkv[2]);
  x = x + at::linear(heads.transpose(1, 2).reshape({3, 6, kWidth}), p[4]);
  const at::Tensor hidden = at::gelu(at::linear(at::layer_norm(x, {kWidth}, p[1], p[2]), p[5]));
  x = x + at::linear(hidden, p[6]);
  return at::cross_entropy_loss(at::linear(x, p[0]).view({-1, kVocabulary}),
                                tokens.roll(-1, 1).view({-1}));
}

const std::vector<std::vector<int64_t>> kTransformer = {
    {kVocabulary, kWidth}, {kWidth},     {kWidth},    {3 * kWidth, kWidth},
    {kWidth, kWidth},      {32, kWidth}, {kWidth, 32}};

at::Tensor Convolutions(const Tensors& p, int step, c10::Device device) {
  at::Tensor x = Inputs({2, 3, 8, 8}, static_cast<uint64_t>(step), device);
  x = at::conv2d(x, p[0], p[1], 1, 1);
  x = at::batch_norm(x, p[2], p[2], {}, {}, true, 0.1, 1e-5, false);
  x = at::max_pool2d(at::relu(x), 2);
  return at::adaptive_avg_pool2d(at::conv2d(x, p[3], {}, 2), {1, 1}).pow(2).sum();
}

TEST(CpusBits, OfAnMlpOverSteps) {
  ExpectTheCpusBits(kMlp, Mlp);
}

TEST(CpusBits, OfATransformerOverSteps) {
  ExpectTheCpusBits(kTransformer, Transformer);
}

TEST(CpusBits, OfConvolutionsOverSteps) {
  ExpectTheCpusBits({{4, 3, 3, 3}, {4}, {4}, {2, 4, 2, 2}}, Convolutions);
}

TEST(CpusBits, OfForeachAndFusedOperations) {
  const auto run = [](c10::Device device) {
    Tensors parameters, gradients, first, second, steps;
    for (const int64_t size : {3, 500, 4096}) {
      const auto seed = static_cast<uint64_t>(size);
      parameters.push_back(Inputs({size}, seed, device));
      gradients.push_back(Inputs({size}, seed + 1, device));
      first.push_back(at::zeros_like(parameters.back()));
      second.push_back(at::zeros_like(parameters.back()));
      steps.push_back(at::zeros({}, parameters.back().options()));
    }
    at::_foreach_mul_(gradients, 0.5);
    const Tensors norms = at::_foreach_norm(gradients, 2);
    at::_foreach_div_(gradients, at::stack(norms).norm().add(1e-6));
    at::_foreach_lerp_(parameters, gradients, 0.25);
    for (int step = 0; step < 3; ++step) {
      at::_foreach_add_(steps, 1);
      at::_fused_adamw_(parameters, gradients, first, second, {}, steps, 1e-2, 0.9, 0.999, 0.1,
                        1e-8, false, false);
    }
    for (at::Tensor& one : parameters) one = one.cpu();
    return parameters;
  };
  const Tensors expected = run(c10::kCPU), actual = run(DeviceAt());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
  }
}

TEST(CpusBits, OfGeneratorsAndTheirStates) {
  const auto run = [](c10::Device device) {
    at::Generator own = at::globalContext().defaultGenerator(device).clone();
    own.set_current_seed(3);
    const auto options = at::TensorOptions(device);
    Tensors drawn = {at::randn({100}, own, options), at::rand({7}, own, options)};
    const at::Tensor state = own.get_state();
    drawn.push_back(at::empty({33}, options).bernoulli_(0.3, own));
    own.set_state(state);
    drawn.push_back(at::empty({33}, options).bernoulli_(0.3, own));
    EXPECT_TRUE(at::equal(drawn[2].cpu(), drawn[3].cpu()));
    drawn.push_back(at::randperm(50, own, options));
    drawn.push_back(at::randint(9, {50}, own, options));
    drawn.push_back(at::empty({20}, options).normal_(0, 1, own));
    for (at::Tensor& one : drawn) one = one.cpu();
    return drawn;
  };
  const Tensors expected = run(c10::kCPU), actual = run(DeviceAt(2));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
  }
}

TEST(CpusBits, OfViewsIndicesAndTypes) {
  const auto run = [](c10::Device device) {
    const at::Tensor a = Inputs({4, 6}, 1, device);
    const at::Tensor rows = at::arange(3, a.options().dtype(at::kLong));
    Tensors results = {
        a.t(),
        a.unfold(1, 2, 2),
        a.view(at::kInt),
        a.select(0, 1).expand({3, 6}),
        a.index({rows, rows}),
        a.to(at::kBFloat16).mul(3),
        a.gt(0),
        at::nonzero(a.gt(0)),
        a.masked_select(a.gt(0)),
        a.clone().resize_({5, 6}).narrow(0, 0, 4),
        a.clone().index_put_({rows, rows}, at::zeros({3}, a.options())),
        std::get<0>(a.max(1)),
        std::get<1>(a.sort(1)),
        at::cat({a, a * 2}, 1),
        at::stack({a, a}),
        a.cumsum(0),
        at::where(a.gt(0), a, a.neg()),
        a.std(),
        at::clamp(a, -1, 1).sum(at::IntArrayRef{0}, false, at::kDouble),
    };
    for (at::Tensor& one : results) one = one.cpu();
    return results;
  };
  const Tensors expected = run(c10::kCPU), actual = run(DeviceAt());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(actual[i].scalar_type(), expected[i].scalar_type()) << i;
    EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
  }
}

// Work on random tensors on random streams, each use behind the uses before it; also frees.
Tensors RandomProgram(unsigned seed, c10::Device device) {
  std::mt19937 random(seed);
  std::vector<c10::Stream> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(StreamFromPool(0));
  Tensors tensors(5);
  std::vector<Event> last(tensors.size());  // use of each
  const auto use = [&](std::initializer_list<size_t> used, const auto& compute) {
    const c10::Stream stream = streams[random() % streams.size()];
    if (device.is_cpu()) return compute();
    const c10::StreamGuard guard(stream);
    for (const size_t one : used) {
      LetWait(last[one], stream);
      if (tensors[one].defined()) tensors[one].record_stream(stream);
    }
    compute();
    for (const size_t one : used) Record(last[one], stream);
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    use({i}, [&] {
      tensors[i] = at::full({100}, 0.5, at::TensorOptions(device)) + static_cast<int>(i);
    });
  }
  for (int step = 0; step < 200; ++step) {
    const size_t a = random() % tensors.size(), b = random() % tensors.size();
    if (step % 3 == 0) {
      use({a, b}, [&] { tensors[a] = tensors[a] * 0.5 + tensors[b]; });
    } else {
      use({a, b}, [&] { tensors[a].narrow(0, 20, 60).mul_(0.7).sub_(tensors[b].mean()); });
    }
  }
  if (!device.is_cpu()) SynchronizeDevice(0);
  for (at::Tensor& one : tensors) one = one.cpu();
  return tensors;
}

TEST(Streams, KeepTheOrderThatWaitsGiveThem) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const Tensors expected = RandomProgram(seed, c10::kCPU);
    const Tensors actual = RandomProgram(seed, DeviceAt());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(at::equal(actual[i], expected[i])) << "seed " << seed << ", tensor " << i;
    }
  }
}

TEST(HostSyncs, AreNoneInAStep) {
  const Tensors parameters = Parameters(kTransformer, DeviceAt());
  const auto loss = [&] {
    Tensors first, second;
    const auto options = at::TensorOptions(DeviceAt()).dtype(at::kLong);
    const at::Tensor tokens = at::randint(20, {3, 6}, options);
    at::Tensor one = at::embedding(parameters[0], tokens);
    one = at::cross_entropy_loss(at::linear(one, parameters[0]).view({-1, kVocabulary}),
                                 tokens.view({-1}));
    one.backward();
    AdamW({parameters[0]}, &first, &second, 1);
    return one;
  };
  TakeHostSyncs();
  at::Tensor result;
  {
    const ForbidHostSync forbid;
    result = loss();
    result = loss();
  }
  EXPECT_EQ(Described(TakeHostSyncs()), "");
  result.item();
  const auto syncs = TakeHostSyncs();
  ASSERT_EQ(syncs.size(), 1U);
  EXPECT_EQ(syncs[0].kind, HostSyncKind::kItem);
}

}  // namespace
}  // namespace ddprun::simulated
