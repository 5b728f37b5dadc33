#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

#include "trainer/compute/device.h"
#include "trainer/compute/matmul.h"
#include "trainer/compute/operations.h"
#include "trainer/compute/precision.h"

namespace ddprun::trainer {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor AsMatrix(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

std::optional<at::Tensor> Optional(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

// Returns whether another engine than LibTorch's multiplies. If not, LibTorch's operator is faster.
bool GoesToEngine(const at::Tensor& x, const at::Tensor& weight) {
  return EngineFor(x.scalar_type(), x.device(), x.numel() / x.size(-1) * weight.numel()) !=
         MatmulEngine::kDefault;
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            bool weight_is_out_in) {
    const at::ScalarType type = ComputeType(weight.scalar_type());
    const at::Tensor rows = AsMatrix(x.to(type));
    const at::Tensor stored = weight.to(type);
    const at::Tensor factor = weight_is_out_in ? stored.t() : stored;  // [in, out]
    at::Tensor out = at::empty({rows.size(0), factor.size(1)}, rows.options());
    if (bias && !IsForHostKernels(rows)) {
      at::addmm_out(out, bias->to(type), rows, factor);  // cuBLAS adds a vector to the products
    } else {
      if (bias) out.copy_(bias->expand_as(out));
      Multiply(rows, factor, out, /*accumulate=*/bias.has_value());
    }
    // The parameter itself is saved as a variable, so that autograd notices a change.
    context->save_for_backward({rows, stored.is_same(weight) ? weight : at::Tensor()});
    if (!stored.is_same(weight)) context->saved_data["copy"] = stored;
    context->saved_data["out_in"] = weight_is_out_in;
    context->saved_data["has_bias"] = bias.has_value();
    context->saved_data["type_of_x"] = x.scalar_type();
    context->saved_data["type_of_weight"] = weight.scalar_type();
    std::vector<int64_t> sizes = x.sizes().vec();
    context->saved_data["sizes_of_x"] = sizes;
    sizes.back() = out.size(1);
    return out.view(sizes);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& rows = saved[0];
    const at::Tensor stored =
        saved[1].defined() ? saved[1] : context->saved_data["copy"].toTensor();
    const bool out_in = context->saved_data["out_in"].toBool();
    const at::Tensor gradient = AsMatrix(gradients[0]).to(rows.scalar_type());
    variable_list result(4);
    if (context->needs_input_grad(0)) {
      at::Tensor of_rows = at::empty_like(rows);
      Multiply(gradient, out_in ? stored : stored.t(), of_rows);
      result[0] = of_rows.view(context->saved_data["sizes_of_x"].toIntVector())
                      .to(context->saved_data["type_of_x"].toScalarType());
    }
    if (context->needs_input_grad(1)) {
      at::Tensor of_weight = at::empty(stored.sizes(), stored.options());
      Multiply(out_in ? gradient.t() : rows.t(), out_in ? rows : gradient, of_weight);
      result[1] = of_weight.to(context->saved_data["type_of_weight"].toScalarType());
    }
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2)) {
      result[2] = at::sum(gradient, {0}, /*keepdim=*/false,
                          context->saved_data["type_of_weight"].toScalarType());
    }
    return result;
  }
};

}  // namespace

at::Tensor LinearLayer(const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& bias,
                       WeightLayout layout) {
  const bool out_in = layout == WeightLayout::kOutIn;
  if (ComputeType(weight.scalar_type()) == weight.scalar_type() && !GoesToEngine(x, weight)) {
    if (out_in) return at::linear(x, weight, Optional(bias));
    return bias.defined() && x.dim() == 2 ? at::addmm(bias, x, weight)
                                          : at::linear(x, weight.t(), Optional(bias));
  }
  return LinearFunction::apply(x, weight, Optional(bias), out_in);
}

}  // namespace ddprun::trainer
