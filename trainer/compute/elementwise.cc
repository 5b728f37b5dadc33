#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trainer/compute/device.h"
#include "trainer/compute/kernels.h"
#include "trainer/compute/operations.h"

namespace ddprun::trainer {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kPieceElements = 1 << 15;  // least number of elements of a thread

bool Fits(const at::Tensor& x) {
  return IsForHostKernels(x) && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

template <typename Element, typename Run, typename... Inputs>
void InPiecesOf(const Run& run, const at::Tensor& output, const Inputs&... inputs) {
  Element* const to = output.mutable_data_ptr<Element>();
  at::parallel_for(0, output.numel(), kPieceElements, [&](int64_t begin, int64_t end) {
    run(begin, end - begin, inputs.template const_data_ptr<Element>() + begin..., to + begin);
  });
}

// Calls run(begin, count, data of each input, data of the output) for pieces of the tensors, which
// are contiguous, of equal size and of one dtype that Fits(). `begin` is a piece's first element.
template <typename Run, typename... Inputs>
void InPieces(const Run& run, const at::Tensor& output, const Inputs&... inputs) {
  if (output.scalar_type() == at::kFloat) {
    InPiecesOf<float>(run, output, inputs...);
  } else {
    InPiecesOf<at::BFloat16>(run, output, inputs...);
  }
}

at::Tensor Drop(const at::Tensor& x, double probability, int64_t key) {
  const at::Tensor input = x.contiguous();
  at::Tensor output = at::empty_like(input);
  const DropoutStream stream{static_cast<uint64_t>(key), probability};
  const auto run = [&](int64_t begin, int64_t count, const auto* from, auto* to) {
    DropoutKernel(from, to, begin, count, stream);
  };
  InPieces(run, output, input);
  return output;
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double probability) {
    const auto key = static_cast<int64_t>(DrawSeed());
    context->saved_data["key"] = key;
    context->saved_data["probability"] = probability;
    return Drop(x, probability, key);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {Drop(gradients[0], context->saved_data["probability"].toDouble(),
                 context->saved_data["key"].toInt()),
            at::Tensor()};
  }
};

class GeluFunction : public torch::autograd::Function<GeluFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    const at::Tensor input = x.contiguous();
    context->save_for_backward({input});
    at::Tensor output = at::empty_like(input);
    const auto run = [](int64_t, int64_t count, const auto* from, auto* to) {
      GeluTanhKernel(from, to, count);
    };
    InPieces(run, output, input);
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor input = context->get_saved_variables()[0];
    const at::Tensor gradient = gradients[0].contiguous();
    at::Tensor output = at::empty_like(input);
    const auto run = [](int64_t, int64_t count, const auto* from, const auto* x, auto* to) {
      GeluTanhBackwardKernel(from, x, to, count);
    };
    InPieces(run, output, gradient, input);
    return {output};
  }
};

}  // namespace

at::Tensor DropElements(const at::Tensor& x, double probability) {
  if (probability == 0) return x;
  if (Fits(x)) return DropoutFunction::apply(x, probability);
  if (!x.is_cpu()) return at::dropout(x, probability, /*train=*/true);
  // The formula of at::dropout, with this thread's generator.
  return x * at::empty_like(x).bernoulli_(1 - probability, HostGenerator()).div_(1 - probability);
}

at::Tensor GeluTanh(const at::Tensor& x) {
  return Fits(x) ? GeluFunction::apply(x) : at::gelu(x, "tanh");
}

}  // namespace ddprun::trainer
