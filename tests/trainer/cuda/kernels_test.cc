// The CUDA kernels, computed by the CPU thread by thread, against ATen's operators in float64.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/trainer/cuda/kernels_on_cpu.h"
#include "trainer/compute/device.h"
#include "trainer/compute/device_kernels.h"
#include "trainer/compute/operations.h"
#include "trainer/cuda/row_kernels.h"

namespace ddprun::trainer {

namespace {

using testing::HasSubstr;

template <typename Argument>
void RunBlocks(void (*kernel)(Argument),
               const LaunchShape& shape,
               const Argument& argument,
               bool backwards) {
  on_cpu::gridDim.x = static_cast<unsigned>(shape.blocks);
  on_cpu::Block block;
  for (unsigned i = 0; i < on_cpu::gridDim.x; ++i) {
    on_cpu::blockIdx.x = i;
    block.Run(
        static_cast<unsigned>(shape.threads), [&] { kernel(argument); }, backwards);
  }
}

class KernelsOnCpu : public RowKernels {
 public:
  explicit KernelsOnCpu(at::ScalarType type, bool backwards = false)
      : RowKernels(type, {.processors = 2, .cache_bytes = 1 << 20}), backwards_(backwards) {}

  at::DeviceType device_type() const override { return at::kCPU; }

 private:
  void Run(const LaunchShape& shape, c10::Device, kernels::LossRows argument) override {
    RunBlocks(
        Of(on_cpu::ddprun_losses_float, on_cpu::ddprun_losses_Bf16, on_cpu::ddprun_losses_Fp16),
        shape, argument, backwards_);
  }
  void Run(const LaunchShape& shape, c10::Device, kernels::NormRows argument) override {
    RunBlocks(Of(on_cpu::ddprun_norm_float, on_cpu::ddprun_norm_Bf16, on_cpu::ddprun_norm_Fp16),
              shape, argument, backwards_);
  }
  void Run(const LaunchShape& shape, c10::Device, kernels::NormGradients argument) override {
    RunBlocks(Of(on_cpu::ddprun_norm_gradients_float, on_cpu::ddprun_norm_gradients_Bf16,
                 on_cpu::ddprun_norm_gradients_Fp16),
              shape, argument, backwards_);
  }

  template <typename Kernel>
  Kernel Of(Kernel of_float, Kernel of_bf16, Kernel of_fp16) const {
    if (type() == at::kBFloat16) return of_bf16;
    return type() == at::kHalf ? of_fp16 : of_float;
  }

  const bool backwards_;
};

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

// The largest error of a result that is rounded once to the type, as a part of the largest number.
double Rounding(at::ScalarType type) {
  if (type == at::kFloat) return 2e-6;
  return type == at::kBFloat16 ? 4e-3 : 5e-4;
}

void ExpectNear(const at::Tensor& found,
                const at::Tensor& expected,
                double part,
                const std::string& of) {
  const at::Tensor exact = expected.to(at::kDouble);
  const at::Tensor difference = (found.to(at::kDouble) - exact).abs().max();
  EXPECT_LE(difference.item<double>(), part * (exact.abs().max().item<double>() + 1e-30)) << of;
}

// Returns [rows, columns] as a part of wider rows, whose other numbers are 77.
at::Tensor Padded(int64_t rows, int64_t columns, at::ScalarType type) {
  return at::full({rows, (columns + 63) / 64 * 64 + 64}, 77.0, type).narrow(1, 0, columns);
}

void ExpectPadding(const at::Tensor& matrix) {
  const int64_t width = matrix.stride(0);
  const at::Tensor whole = matrix.as_strided({matrix.size(0), width}, {width, 1});
  const at::Tensor rest = whole.narrow(1, matrix.size(1), width - matrix.size(1));
  EXPECT_TRUE(rest.eq(77.0).all().item<bool>()) << "the numbers after a row are untouched";
}

TEST(KernelShapes, GiveEachNumberOfARowToAThread) {
  const DeviceSize h200 = {.processors = 132, .cache_bytes = 50 << 20};
  for (const int64_t width : {4, 512, 516, 768, 4096, 8192}) {
    const LaunchShape shape = ShapeOfNorm(100000, width, h200);
    EXPECT_EQ(shape.threads % 32, 0);
    EXPECT_LE(shape.threads, 512);
    EXPECT_GE(shape.threads * kThreadNumbers, width);
    EXPECT_EQ(ShapeOfNormGradients(100000, width, h200).threads, shape.threads);
  }
  EXPECT_EQ(ShapeOfNorm(3, 768, h200).blocks, 3);
  EXPECT_LT(ShapeOfNorm(37, 528, {.processors = 1}).blocks, 37) << "as CompareWithAten() wants it";
  EXPECT_LT(ShapeOfLosses(37, 1003, {.processors = 1, .cache_bytes = 1 << 16}).blocks, 37);
  EXPECT_EQ(ShapeOfLosses(12288, 50257, h200).blocks, 132) << "half of the cache holds their rows";
  EXPECT_EQ(ShapeOfLosses(12288, 50257, h200).threads, 1024);
  EXPECT_EQ(ShapeOfLosses(12288, 256, h200).threads, 32);
}

class LossKernels : public testing::TestWithParam<int> {};

TEST_P(LossKernels, EqualAtenInFloat64) {
  const int64_t classes = GetParam();
  constexpr int64_t kRows = 7;
  at::manual_seed(classes);
  for (const at::ScalarType type : kTypes) {
    for (const double smoothing : {0.0, 0.1}) {
      const std::string of = std::string(toString(type)) + " " + std::to_string(smoothing);
      const at::Tensor given = at::randn({kRows, classes}) * 8;
      at::Tensor targets = at::randint(classes, {kRows}, at::kLong);
      targets[2] = -100;
      const at::Tensor exact = given.to(at::kDouble).requires_grad_();
      const at::Tensor losses =
          at::cross_entropy_loss(exact, targets, {}, at::Reduction::None, -100, smoothing);
      const at::Tensor derivatives = torch::autograd::grad({losses.sum()}, {exact})[0];

      at::Tensor results[2];
      for (const bool backwards : {false, true}) {
        RowLossArguments a = {.scores = Padded(kRows, classes, at::kFloat),
                              .targets = targets,
                              .losses = at::full({kRows}, NAN),
                              .smoothing = smoothing};
        a.scores.copy_(given);
        // In float32 they take the scores' place.
        a.derivatives = type == at::kFloat ? a.scores : Padded(kRows, classes, type);
        KernelsOnCpu(type, backwards).RowLosses(a);
        ExpectNear(a.losses, losses, 2e-6, of);
        ExpectNear(a.derivatives, derivatives, Rounding(type), of);
        EXPECT_TRUE(a.derivatives[2].eq(0).all().item<bool>());
        ExpectPadding(a.scores);
        ExpectPadding(a.derivatives);
        results[backwards ? 1 : 0] = at::cat({a.losses, a.derivatives.to(at::kFloat).flatten()});

        a.scores.copy_(given);
        a.derivatives = at::Tensor();
        a.losses = at::full({kRows}, NAN);
        KernelsOnCpu(type, backwards).RowLosses(a);
        EXPECT_TRUE(a.losses.equal(results[backwards ? 1 : 0].narrow(0, 0, kRows)));
        EXPECT_TRUE(a.scores.equal(given)) << "without derivatives the scores stay";
      }
      EXPECT_TRUE(results[0].equal(results[1])) << "the order of threads changes nothing: " << of;
    }
  }
}

// Less than a pack, a pack, more than one, a block of two warps, 8, and 32.
INSTANTIATE_TEST_SUITE_P(Classes, LossKernels, testing::Values(1, 3, 4, 7, 130, 1003, 4099, 50257));

TEST(LossKernels, KeepWhatIsInfiniteOrOutOfRange) {
  const at::Tensor scores = at::zeros({4, 64});
  scores[0].fill_(-INFINITY);
  scores[0][5] = 3;  // the only class that is possible
  scores[1].fill_(1e4);
  scores[2][1] = NAN;
  const at::Tensor targets = at::tensor({5, 63, 0, 64}, at::kLong);
  const at::Tensor losses = at::zeros({4});
  const at::Tensor derivatives = at::zeros({4, 64});
  KernelsOnCpu(at::kFloat)
      .RowLosses(
          {.scores = scores, .derivatives = derivatives, .targets = targets, .losses = losses});
  EXPECT_EQ(losses[0].item<float>(), 0);
  EXPECT_TRUE(derivatives[0].eq(0).all().item<bool>());
  EXPECT_NEAR(losses[1].item<float>(), std::log(64.0), 1e-5);
  EXPECT_TRUE(std::isnan(losses[2].item<float>()));
  EXPECT_TRUE(std::isnan(losses[3].item<float>())) << "64 is no class";
}

struct NormCase {
  int64_t width;
  bool centers;
  bool has_addend;
  bool keeps_sum;
};

class NormKernels : public testing::TestWithParam<NormCase> {
 protected:
  static at::Tensor Normalize(const at::Tensor& x,
                              const at::Tensor& weight,
                              const at::Tensor& bias,
                              bool centers) {
    return centers ? at::layer_norm(x, {x.size(-1)}, weight, bias, 1e-5)
                   : at::rms_norm(x, {x.size(-1)}, weight, 1e-5);
  }
};

TEST_P(NormKernels, EqualAtenInFloat64) {
  const auto [width, centers, has_addend, keeps_sum] = GetParam();
  constexpr int64_t kRows = 11;  // more than blocks
  at::manual_seed(width);
  for (const at::ScalarType type : kTypes) {
    const std::string of = toString(type);
    const auto leaf = [](const at::Tensor& one) {
      return one.to(at::kDouble).detach().requires_grad_();
    };
    const at::Tensor x = at::randn({kRows, width}) * 3 + 2;
    const at::Tensor addend = at::randn({kRows, width}).to(type);
    const at::Tensor weight = at::randn({width});
    const at::Tensor bias = centers ? at::randn({width}) : at::Tensor();
    const at::Tensor of_y = at::randn({kRows, width}).to(type);
    const at::Tensor of_wide = at::randn({kRows, width});

    const at::Tensor x64 = leaf(x), addend64 = leaf(addend), weight64 = leaf(weight);
    const at::Tensor bias64 = centers ? leaf(bias) : at::Tensor();
    const at::Tensor sum64 = has_addend ? x64 + addend64 : x64;
    const at::Tensor y64 = Normalize(sum64, weight64, bias64, centers);
    const at::Tensor loss = (y64 * of_y).sum() + ((keeps_sum ? sum64 : y64) * of_wide).sum();
    loss.backward();

    at::Tensor results[2];
    for (const bool backwards : {false, true}) {
      KernelsOnCpu kernels(type, backwards);
      NormArguments a = {.x = x,
                         .addend = has_addend ? addend : at::Tensor(),
                         .weight = weight,
                         .bias = bias,
                         .sum = has_addend ? at::empty_like(x) : at::Tensor(),
                         .y = at::empty({kRows, width}, type),
                         .wide_y = keeps_sum ? at::Tensor() : at::empty_like(x),
                         .mean = at::empty({kRows}),
                         .factor = at::empty({kRows}),
                         .epsilon = 1e-5,
                         .centers = centers};
      kernels.Norm(a);
      ExpectNear(a.y, y64, Rounding(type), of);
      if (has_addend) ExpectNear(a.sum, sum64, 1e-7, of);
      if (!keeps_sum) ExpectNear(a.wide_y, y64, 2e-6, of);

      const NormGradientArguments g = {
          .sum = has_addend ? a.sum : x,
          .of_y = of_y,
          .of_wide = of_wide,
          .of_sum = keeps_sum,
          .weight = weight,
          .mean = a.mean,
          .factor = a.factor,
          .of_x = at::empty_like(x),
          .of_addend = has_addend ? at::empty({kRows, width}, type) : at::Tensor(),
          .centers = centers};
      const at::Tensor parameters = kernels.NormGradients(g);
      ExpectNear(g.of_x, x64.grad(), 4e-6, of);
      if (has_addend) ExpectNear(g.of_addend, addend64.grad(), Rounding(type), of);
      ExpectNear(parameters[0], weight64.grad(), 4e-6, of);
      if (centers) ExpectNear(parameters[1], bias64.grad(), 4e-6, of);
      results[backwards ? 1 : 0] = at::cat({g.of_x.flatten(), parameters.flatten(), a.factor});
    }
    EXPECT_TRUE(results[0].equal(results[1])) << "the order of threads changes nothing: " << of;
  }
}

INSTANTIATE_TEST_SUITE_P(Rows,
                         NormKernels,
                         testing::Values(NormCase{4, true, false, true},
                                         NormCase{128, true, true, true},
                                         NormCase{132, false, true, false},
                                         NormCase{516, true, true, false},
                                         NormCase{768, true, true, true},
                                         NormCase{768, false, false, false},
                                         NormCase{8192, true, true, true}));

// A GPU reads four numbers at once only from a multiple of their size; this file's compiler checks
// it.
TEST(NormOfSum, TakesPartsOfLargerTensors) {
  constexpr int64_t kWidth = 64;
  at::manual_seed(1);
  const auto part = [](at::IntArrayRef sizes) {
    const int64_t count = c10::multiply_integers(sizes);
    return at::randn({count + 1}).narrow(0, 1, count).view(sizes).requires_grad_();
  };
  const at::Tensor x = part({3, kWidth});
  const at::Tensor addend = part({3, kWidth});
  const NormLayer layer = {part({kWidth}), part({kWidth}), 1e-5};
  const std::vector<at::Tensor> inputs = {x, addend, layer.weight, layer.bias};
  const auto compute = [&] {
    const ResidualAndNorm both = NormOfSum(x, addend, layer);
    std::vector<at::Tensor> all = {both.residual, both.normed};
    const at::Tensor of_outputs = at::ones({2 * 3 * kWidth + 1}).narrow(0, 1, 2 * 3 * kWidth);
    const auto of = of_outputs.view({2, 3, kWidth}).unbind();
    for (at::Tensor& one : torch::autograd::grad(all, inputs, of)) all.push_back(one);
    return all;
  };
  const std::vector<at::Tensor> expected = compute();
  UseDeviceKernels(std::make_shared<KernelsOnCpu>(at::kFloat));
  const std::vector<at::Tensor> found = compute();
  UseDeviceKernels(nullptr);
  for (size_t i = 0; i < found.size(); ++i) {
    ExpectNear(found[i], expected[i], 1e-5, std::to_string(i));
  }
  EXPECT_FALSE(found[1].equal(expected[1])) << "the kernels have computed";
}

TEST(CompareWithAten, FindsNoDifferenceAndLeavesNoKernels) {
  const DeviceOperatorsOnly as_on_a_device;
  for (const at::ScalarType type : kTypes) {
    EXPECT_EQ(CompareWithAten(std::make_shared<KernelsOnCpu>(type), at::kCPU), "");
    EXPECT_EQ(KernelsFor(at::zeros({1}), type), nullptr);
  }
}

TEST(CompareWithAten, NamesWhatDiffers) {
  struct WrongLosses final : KernelsOnCpu {
    WrongLosses() : KernelsOnCpu(at::kFloat) {}
    void RowLosses(const RowLossArguments& arguments) override {
      KernelsOnCpu::RowLosses(arguments);
      arguments.losses[1].add_(1);
    }
  };
  struct WrongGradients final : KernelsOnCpu {
    WrongGradients() : KernelsOnCpu(at::kFloat) {}
    at::Tensor NormGradients(const NormGradientArguments& arguments) override {
      const at::Tensor result = KernelsOnCpu::NormGradients(arguments);
      arguments.of_x[3][7] = NAN;
      return result;
    }
  };
  const DeviceOperatorsOnly as_on_a_device;
  EXPECT_THAT(CompareWithAten(std::make_shared<WrongLosses>(), at::kCPU),
              HasSubstr("tensor 0 of the loss differs from ATen's by"));
  EXPECT_THAT(CompareWithAten(std::make_shared<WrongGradients>(), at::kCPU),
              HasSubstr("of a residual's norm differs from ATen's by nan"));
  EXPECT_EQ(KernelsFor(at::zeros({1}), at::kFloat), nullptr);
}

}  // namespace

}  // namespace ddprun::trainer
