#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "trainer/compute/device.h"
#include "trainer/compute/matmul.h"
#include "trainer/compute/operations.h"
#include "trainer/compute/precision.h"
#include "trainer/compute/weight_copies.h"

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

// Layers of one input as one product, whose columns are the outputs of all. Several layers have the
// layout [out, in], and each has a bias or none has.
class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            at::TensorList weights,
                            at::TensorList biases,
                            bool weight_is_out_in) {
    const at::ScalarType type = ComputeType(weights[0].scalar_type());
    const at::Tensor rows = AlignRows(AsMatrix(x.to(type)));
    const at::Tensor stored = JoinInTypeOfProducts(weights);
    const at::Tensor factor = weight_is_out_in ? stored.t() : stored;  // [in, out]
    at::Tensor out = ResultFor(rows, factor);
    if (!biases.empty() && !IsForHostKernels(rows)) {
      // cuBLAS adds a vector to the products.
      at::addmm_out(out, JoinInTypeOfProducts(biases), rows, factor);
    } else {
      if (!biases.empty()) out.copy_(biases[0].expand_as(out));
      Multiply(rows, factor, out, /*accumulate=*/!biases.empty());
    }
    // The parameter itself is saved as a variable, so that autograd notices a change.
    const bool is_copy = !stored.is_same(weights[0]);
    context->save_for_backward({rows, is_copy ? at::Tensor() : weights[0]});
    if (is_copy) context->saved_data["copy"] = stored;
    context->saved_data["out_in"] = weight_is_out_in;
    context->saved_data["biases"] = static_cast<int64_t>(biases.size());
    context->saved_data["type_of_x"] = x.scalar_type();
    context->saved_data["type_of_weight"] = weights[0].scalar_type();
    std::vector<int64_t> outputs;
    for (const at::Tensor& weight : weights) outputs.push_back(weight.size(0));
    context->saved_data["outputs"] = outputs;
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
    const auto type = context->saved_data["type_of_weight"].toScalarType();
    const std::vector<int64_t> outputs = context->saved_data["outputs"].toIntVector();
    const auto biases = static_cast<size_t>(context->saved_data["biases"].toInt());
    const at::Tensor gradient = AlignRows(AsMatrix(gradients[0]).to(rows.scalar_type()));
    variable_list result(1);
    if (context->needs_input_grad(0)) {
      const auto type_of_x = context->saved_data["type_of_x"].toScalarType();
      at::Tensor of_rows =
          at::empty_like(rows, rows.options().dtype(TypeOfProducts(rows, type_of_x)));
      Multiply(gradient, out_in ? stored : stored.t(), of_rows);
      result[0] = of_rows.view(context->saved_data["sizes_of_x"].toIntVector()).to(type_of_x);
    }
    // Autograd takes these parts as gradients without copying them.
    const auto add_parts = [&](const at::Tensor& whole) {
      if (outputs.size() == 1) return result.push_back(whole);
      for (const at::Tensor& part : whole.split_with_sizes(outputs)) result.push_back(part);
    };
    const auto needs_any = [&](size_t first) {
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (context->needs_input_grad(first + i)) return true;
      }
      return false;
    };
    if (needs_any(1)) {
      at::Tensor of_weight =
          at::empty(stored.sizes(), stored.options().dtype(TypeOfProducts(rows, type)));
      Multiply(out_in ? gradient.t() : rows.t(), out_in ? rows : gradient, of_weight);
      add_parts(of_weight.to(type));
    } else {
      result.resize(1 + outputs.size());
    }
    if (biases > 0 && needs_any(1 + outputs.size())) {
      add_parts(at::sum(gradient, {0}, /*keepdim=*/false, type));
    }
    result.resize(1 + outputs.size() + biases + 1);
    return result;
  }

 private:
  static at::Tensor ResultFor(const at::Tensor& rows, const at::Tensor& factor) {
    constexpr int64_t kAligned = 8;  // 16-bit numbers of 16 bytes
    if (factor.size(1) % kAligned != 0) return MatrixFor(rows, rows.size(0), factor.size(1));
    return at::empty({rows.size(0), factor.size(1)}, rows.options());
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
  return LinearFunction::apply(x, at::TensorList(weight),
                               bias.defined() ? at::TensorList(bias) : at::TensorList(), out_in);
}

bool IsFasterAsOneProduct(const at::Tensor& x, std::span<const LinearWeights> layers) {
  const at::ScalarType type = layers[0].weight.scalar_type();
  return x.is_cuda() && ComputeType(type) != type &&
         std::ranges::all_of(layers, [&](const LinearWeights& layer) {
           return layer.bias.defined() == layers[0].bias.defined();
         });
}

std::vector<at::Tensor> LinearLayers(const at::Tensor& x, std::span<const LinearWeights> layers) {
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> biases;
  std::vector<int64_t> outputs;
  for (const LinearWeights& layer : layers) {
    weights.push_back(layer.weight);
    if (layer.bias.defined()) biases.push_back(layer.bias);
    outputs.push_back(layer.weight.size(0));
  }
  return LinearFunction::apply(x, at::TensorList(weights), at::TensorList(biases),
                               /*weight_is_out_in=*/true)
      .split_with_sizes(outputs, -1);
}

}  // namespace ddprun::trainer
