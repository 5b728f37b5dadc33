#include "trainer/parallel/tensor_parallel.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/init.h>

#include <cmath>
#include <optional>
#include <utility>

#include "base/failure.h"
#include "base/text.h"
#include "trainer/compute/matmul.h"
#include "trainer/compute/precision.h"
#include "trainer/compute/weight_copies.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/parallel/vocabulary_loss.h"

namespace ddprun::trainer {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Group = c10::intrusive_ptr<c10d::Backend>;

at::Tensor RowsOf(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

class ByOutputsFunction : public torch::autograd::Function<ByOutputsFunction> {
 public:
  // `biases`: of the layers whose bit in `has_bias` is set.
  static variable_list forward(AutogradContext* context,
                               const at::Tensor& x,
                               at::TensorList weights,
                               at::TensorList biases,
                               int64_t has_bias,
                               bool out_in,
                               const Group& group) {
    const at::ScalarType type = ComputeType(weights[0].scalar_type());
    const at::Tensor rows = RowsOf(x.to(type));
    std::vector<int64_t> sizes = x.sizes().vec();
    variable_list saved = {rows};
    variable_list outputs;
    auto next_bias = biases.begin();
    for (size_t i = 0; i < weights.size(); ++i) {
      const at::Tensor stored = InTypeOfProducts(weights[i]);
      const at::Tensor factor = out_in ? stored.t() : stored;  // [in, out]
      at::Tensor out = at::empty({rows.size(0), factor.size(1)}, rows.options());
      const bool adds = (has_bias >> i & 1) != 0;
      if (adds) out.copy_((next_bias++)->expand_as(out));
      Multiply(rows, factor, out, /*accumulate=*/adds);
      saved.push_back(stored);
      sizes.back() = out.size(1);
      outputs.push_back(out.view(sizes));
    }
    context->save_for_backward(std::move(saved));
    context->saved_data["has_bias"] = has_bias;
    context->saved_data["out_in"] = out_in;
    context->saved_data["group"] = at::IValue::make_capsule(group);
    context->saved_data["sizes_of_x"] = x.sizes().vec();
    context->saved_data["type_of_x"] = x.scalar_type();
    context->saved_data["type_of_weights"] = weights[0].scalar_type();
    return outputs;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& rows = saved[0];
    const bool out_in = context->saved_data["out_in"].toBool();
    const int64_t has_bias = context->saved_data["has_bias"].toInt();
    const auto type = context->saved_data["type_of_weights"].toScalarType();
    for (at::Tensor& gradient : gradients) {
      if (gradient.defined()) gradient = RowsOf(gradient).to(rows.scalar_type());
    }
    at::Tensor of_rows;
    c10::intrusive_ptr<c10d::Work> sum;
    if (context->needs_input_grad(0)) {
      of_rows = InputGradient(gradients, saved, out_in);
      const auto capsule = context->saved_data["group"].toCapsule();
      sum = BeginAllReduce(static_cast<c10d::Backend&>(*capsule), of_rows);
    }
    variable_list of_weights;
    variable_list of_biases;
    for (size_t i = 0; i < gradients.size(); ++i) {
      const at::Tensor& gradient = gradients[i];
      at::Tensor of_weight;
      if (gradient.defined() && context->needs_input_grad(1 + i)) {
        of_weight =
            at::empty(saved[1 + i].sizes(), rows.options().dtype(TypeOfProducts(rows, type)));
        Multiply(out_in ? gradient.t() : rows.t(), out_in ? rows : gradient, of_weight);
        of_weight = of_weight.to(type);
      }
      of_weights.push_back(of_weight);
      if ((has_bias >> i & 1) == 0) continue;
      of_biases.push_back(gradient.defined() ? at::sum(gradient, {0}, /*keepdim=*/false, type)
                                             : at::Tensor());
    }
    variable_list result(1);
    if (sum != nullptr) {
      sum->wait();
      result[0] = of_rows.view(context->saved_data["sizes_of_x"].toIntVector())
                      .to(context->saved_data["type_of_x"].toScalarType());
    }
    result.insert(result.end(), of_weights.begin(), of_weights.end());
    result.insert(result.end(), of_biases.begin(), of_biases.end());
    result.resize(result.size() + 3);  // has_bias, out_in, group
    return result;
  }

 private:
  static at::Tensor InputGradient(const variable_list& gradients,
                                  const variable_list& saved,
                                  bool out_in) {
    at::Tensor of_rows = at::empty_like(saved[0]);
    bool accumulate = false;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const at::Tensor& stored = saved[1 + i];
      Multiply(gradients[i], out_in ? stored : stored.t(), of_rows, accumulate);
      accumulate = true;
    }
    return accumulate ? of_rows : of_rows.zero_();
  }
};

// Sums the ranks' outputs, and adds the bias.
class SumFunction : public torch::autograd::Function<SumFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& part,
                            const std::optional<at::Tensor>& bias,
                            const Group& group) {
    at::Tensor sum = part.is_contiguous() ? part.detach() : part.contiguous();
    AllReduceOnHost(group.get(), sum);
    if (bias) sum.add_(*bias);
    if (bias) context->saved_data["type_of_bias"] = bias->scalar_type();
    return sum;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    variable_list result = {gradients[0], at::Tensor(), at::Tensor()};
    if (context->saved_data.count("type_of_bias") == 1 && context->needs_input_grad(1)) {
      result[1] = at::sum(RowsOf(gradients[0]), {0}, /*keepdim=*/false,
                          context->saved_data["type_of_bias"].toScalarType());
    }
    return result;
  }
};

class GatherFunction : public torch::autograd::Function<GatherFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& part,
                            int64_t begin,
                            int64_t whole,
                            const Group& group) {
    std::vector<int64_t> sizes = part.sizes().vec();
    sizes.back() = whole;
    // Gathers by a sum with zeros, because ranges may differ in length and every backend has sums.
    const at::Tensor all = at::zeros(sizes, part.options());
    all.narrow(-1, begin, part.size(-1)).copy_(part);
    AllReduceOnHost(group.get(), all);
    context->saved_data["begin"] = begin;
    context->saved_data["length"] = part.size(-1);
    return all;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {gradients[0].narrow(-1, context->saved_data["begin"].toInt(),
                                context->saved_data["length"].toInt()),
            at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// Takes this rank's part of a tensor that all ranks have. Backward gathers the whole gradient.
class ScatterFunction : public torch::autograd::Function<ScatterFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& all,
                            int64_t begin,
                            int64_t length,
                            const Group& group) {
    context->saved_data["begin"] = begin;
    context->saved_data["sizes"] = all.sizes().vec();
    context->saved_data["group"] = at::IValue::make_capsule(group);
    return all.narrow(-1, begin, length).clone();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor& part = gradients[0];
    const at::Tensor all = at::zeros(context->saved_data["sizes"].toIntVector(), part.options());
    all.narrow(-1, context->saved_data["begin"].toInt(), part.size(-1)).copy_(part);
    const auto capsule = context->saved_data["group"].toCapsule();
    AllReduceOnHost(static_cast<c10d::Backend*>(capsule.get()), all);
    return {all, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

std::optional<at::Tensor> IfDefined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

class GroupAxis final : public TensorAxis {
 public:
  explicit GroupAxis(const Axis& axis) : TensorAxis(axis.rank, axis.size), group_(axis.group) {}

  std::vector<at::Tensor> ByOutputs(const at::Tensor& x,
                                    std::span<const LinearWeights> layers,
                                    WeightLayout layout) const override {
    std::vector<at::Tensor> weights;
    std::vector<at::Tensor> biases;
    int64_t has_bias = 0;
    for (const auto& [weight, bias] : layers) {
      if (bias.defined()) has_bias |= int64_t{1} << weights.size();
      if (bias.defined()) biases.push_back(bias);
      weights.push_back(weight);
    }
    return ByOutputsFunction::apply(x, at::TensorList(weights), at::TensorList(biases), has_bias,
                                    layout == WeightLayout::kOutIn, group_);
  }
  at::Tensor ByInputs(const at::Tensor& x,
                      const LinearWeights& layer,
                      WeightLayout layout) const override {
    return SumFunction::apply(LinearLayer(x, layer.weight, {}, layout), IfDefined(layer.bias),
                              group_);
  }
  at::Tensor Sum(const at::Tensor& part) const override {
    return SumFunction::apply(part, std::optional<at::Tensor>(), group_);
  }
  at::Tensor Gather(const at::Tensor& part, int64_t whole) const override {
    return GatherFunction::apply(part, OwnRange(whole).begin, whole, group_);
  }
  at::Tensor LinearCrossEntropy(const at::Tensor& hidden,
                                const at::Tensor& weight,
                                int64_t classes,
                                const at::Tensor& targets,
                                double smoothing) const override {
    return VocabularyLoss(hidden, weight, targets,
                          {.own = OwnRange(classes),
                           .classes = classes,
                           .largest_part = (classes + size() - 1) / size(),
                           .smoothing = smoothing,
                           .group = group_});
  }

 private:
  const Group group_;
};

// The initial values of torch.nn.Linear.
struct WholeLinear {
  WholeLinear(int64_t in, int64_t out, bool has_bias) : weight(at::empty({out, in})) {
    torch::nn::init::kaiming_uniform_(weight, std::sqrt(5.0));
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    if (has_bias) bias = at::empty({out}).uniform_(-bound, bound);
  }
  at::Tensor weight;
  at::Tensor bias;
};

}  // namespace

std::shared_ptr<const TensorAxis> MakeTensorAxis(const Axis& axis) {
  return std::make_shared<GroupAxis>(axis);
}

}  // namespace ddprun::trainer

namespace ddprun {

namespace {

std::shared_ptr<const trainer::TensorAxis> IfSeveral(const Axis& axis) {
  return axis.group == nullptr ? nullptr : trainer::MakeTensorAxis(axis);
}

// Returns this rank's part of `whole` inputs or outputs. Throws Failure if a rank would have none.
trainer::IndexRange RangeOf(const Axis& axis,
                            const trainer::TensorAxis* parts,
                            int64_t whole,
                            const std::string& name) {
  if (parts == nullptr) return {.begin = 0, .length = whole};
  if (whole >= axis.size) return parts->OwnRange(whole);
  throw Failure(Error{.code = Code::kUsage,
                      .title = "LAYERS CANNOT BE DIVIDED",
                      .what = "A linear layer with " + CountText(whole, name) +
                              " cannot be divided among " + std::to_string(axis.size) + " ranks.",
                      .hint = "Divide larger layers, and take torch::nn::Linear for this one.",
                      .page = "uneven-parts"});
}

}  // namespace

ColumnParallelLinearImpl::ColumnParallelLinearImpl(const Axis& axis,
                                                   int64_t in,
                                                   int64_t out,
                                                   const ParallelLinearOptions& options)
    : axis_(IfSeveral(axis)), out_(out), gather_(options.gather_output) {
  const trainer::WholeLinear whole(in, out, options.bias);
  const auto [begin, length] = RangeOf(axis, axis_.get(), out, "output");
  weight = register_parameter("weight", whole.weight.narrow(0, begin, length).clone());
  if (!options.bias) return;
  bias = register_parameter("bias", whole.bias.narrow(0, begin, length).clone());
}

at::Tensor ColumnParallelLinearImpl::forward(const at::Tensor& x) {
  if (axis_ == nullptr) return trainer::LinearLayer(x, weight, bias);
  const trainer::LinearWeights own = {weight, bias};
  const at::Tensor part = axis_->ByOutputs(x, {&own, 1}, trainer::WeightLayout::kOutIn).front();
  return gather_ ? axis_->Gather(part, out_) : part;
}

RowParallelLinearImpl::RowParallelLinearImpl(const Axis& axis,
                                             int64_t in,
                                             int64_t out,
                                             const ParallelLinearOptions& options)
    : axis_(IfSeveral(axis)), group_(axis.group), in_(in), whole_input_(options.whole_input) {
  const trainer::WholeLinear whole(in, out, options.bias);
  const auto [begin, length] = RangeOf(axis, axis_.get(), in, "input");
  weight = register_parameter("weight", whole.weight.narrow(1, begin, length).clone());
  if (options.bias) bias = register_parameter("bias", whole.bias);
}

at::Tensor RowParallelLinearImpl::forward(const at::Tensor& x) {
  if (axis_ == nullptr) return trainer::LinearLayer(x, weight, bias);
  const auto [begin, length] = axis_->OwnRange(in_);
  const at::Tensor own =
      whole_input_ ? trainer::ScatterFunction::apply(x, begin, length, group_) : x;
  return axis_->ByInputs(own, {weight, bias}, trainer::WeightLayout::kOutIn);
}

}  // namespace ddprun
