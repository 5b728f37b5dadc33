#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/compute/device_kernels.h"
#include "trainer/compute/operations.h"
#include "trainer/compute/precision.h"

// With kernels for the device, the sum, the norm and the cast after it are one kernel, and so are
// their gradients: apart they read and write the rows about twice as often.
namespace ddprun::trainer {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor SumOf(const at::Tensor& x, const at::Tensor& addend) {
  return addend.defined() ? x + addend : x;
}

at::Tensor Normalize(const at::Tensor& x, const NormLayer& layer) {
  return layer.centers ? at::layer_norm(x, {x.size(-1)}, layer.weight, layer.bias, layer.epsilon)
                       : at::rms_norm(x, {x.size(-1)}, layer.weight, layer.epsilon);
}

// Returns the tensor as kernels read it: contiguous, from an address that is a multiple of 16
// bytes, which a part of a larger tensor may lack. GPUs refuse other addresses.
at::Tensor ForKernels(const at::Tensor& tensor) {
  constexpr uintptr_t kBytes = 16;
  if (!tensor.defined()) return tensor;
  const at::Tensor dense = tensor.contiguous();
  const bool aligned = reinterpret_cast<uintptr_t>(dense.const_data_ptr()) % kBytes == 0;
  return aligned ? dense : dense.clone();
}

DeviceKernels* KernelsForNorm(const at::Tensor& x, const NormLayer& layer) {
  DeviceKernels* const kernels = KernelsFor(x, ComputeType(layer.weight.scalar_type()));
  const bool fits = kernels != nullptr && x.scalar_type() == at::kFloat && x.numel() > 0 &&
                    layer.weight.scalar_type() == at::kFloat && kernels->Normalizes(x.size(-1));
  return fits ? kernels : nullptr;
}

// Returns the residual, and the normalized rows in the kernels' type if they are wanted.
class ResidualNormFunction : public torch::autograd::Function<ResidualNormFunction> {
 public:
  static variable_list forward(AutogradContext* context,
                               const at::Tensor& x,
                               const std::optional<at::Tensor>& addend,
                               const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias,
                               double epsilon,
                               bool centers,
                               bool keeps_sum,
                               bool wants_narrow) {
    DeviceKernels& kernels = *KernelsFor(x, ComputeType(weight.scalar_type()));
    NormArguments a = {
        .x = ForKernels(x), .weight = ForKernels(weight), .epsilon = epsilon, .centers = centers};
    if (bias) a.bias = ForKernels(*bias);
    if (addend) {
      a.addend = ForKernels(*addend);
      a.sum = at::empty_like(a.x);
    }
    if (keeps_sum || wants_narrow) a.y = at::empty_like(a.x, a.x.options().dtype(kernels.type()));
    if (!keeps_sum) a.wide_y = at::empty_like(a.x);
    a.mean = at::empty({x.numel() / x.size(-1)}, a.x.options());
    a.factor = at::empty_like(a.mean);
    kernels.Norm(a);
    const at::Tensor sum = addend ? a.sum : x;
    context->save_for_backward({sum, weight, a.mean, a.factor});
    context->set_materialize_grads(false);
    context->saved_data["type"] = kernels.type();
    context->saved_data["centers"] = centers;
    context->saved_data["keeps_sum"] = keeps_sum;
    context->saved_data["has_addend"] = addend.has_value();
    context->saved_data["has_bias"] = bias.has_value();
    variable_list results = {keeps_sum ? sum : a.wide_y};
    if (a.y.defined()) results.push_back(a.y);
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::ScalarType type = context->saved_data["type"].toScalarType();
    const bool has_addend = context->saved_data["has_addend"].toBool();
    NormGradientArguments a = {.sum = ForKernels(saved[0]),
                               .of_wide = ForKernels(gradients[0]),
                               .of_sum = context->saved_data["keeps_sum"].toBool(),
                               .weight = ForKernels(saved[1]),
                               .mean = saved[2],
                               .factor = saved[3],
                               .centers = context->saved_data["centers"].toBool()};
    if (gradients.size() > 1) a.of_y = ForKernels(gradients[1]);
    a.of_x = at::empty_like(a.sum);
    const bool is_narrow = type != at::kFloat;
    if (has_addend && is_narrow) a.of_addend = at::empty_like(a.sum, a.sum.options().dtype(type));
    const at::Tensor parameters = KernelsFor(a.sum, type)->NormGradients(a);
    return {a.of_x,
            has_addend ? (is_narrow ? a.of_addend : a.of_x) : at::Tensor(),
            parameters[0],
            context->saved_data["has_bias"].toBool() ? parameters[1] : at::Tensor(),
            {},
            {},
            {},
            {}};
  }
};

// Returns what the function returns, or nothing if no kernel can compute it.
std::optional<variable_list> ByKernels(const at::Tensor& x,
                                       const at::Tensor& addend,
                                       const NormLayer& layer,
                                       bool keeps_sum,
                                       bool wants_narrow) {
  DeviceKernels* const kernels = KernelsForNorm(x, layer);
  if (kernels == nullptr) return std::nullopt;
  const bool fits =
      addend.defined() && addend.scalar_type() == kernels->type() && addend.sizes() == x.sizes();
  const auto optional = [](const at::Tensor& one, bool use) {
    return use ? std::optional(one) : std::nullopt;
  };
  return ResidualNormFunction::apply(fits ? x : SumOf(x, addend), optional(addend, fits),
                                     layer.weight, optional(layer.bias, layer.bias.defined()),
                                     layer.epsilon, layer.centers, keeps_sum,
                                     wants_narrow && kernels->type() != at::kFloat);
}

}  // namespace

ResidualAndNorm NormOfSum(const at::Tensor& x, const at::Tensor& addend, const NormLayer& layer) {
  if (const auto found = ByKernels(x, addend, layer, /*keeps_sum=*/true, true)) {
    return {(*found)[0], (*found)[1]};
  }
  const at::Tensor sum = SumOf(x, addend);
  return {sum, Normalize(sum, layer)};
}

ResidualAndNorm NormedSum(const at::Tensor& x,
                          const at::Tensor& addend,
                          const NormLayer& layer,
                          bool for_products) {
  if (const auto found = ByKernels(x, addend, layer, /*keeps_sum=*/false, for_products)) {
    return {found->front(), found->back()};
  }
  const at::Tensor y = Normalize(SumOf(x, addend), layer);
  return {y, y};
}

}  // namespace ddprun::trainer
