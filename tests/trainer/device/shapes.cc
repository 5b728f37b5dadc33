#include "tests/trainer/device/shapes.h"

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>

#include <functional>
#include <map>

namespace ddprun::simulated {
namespace {

using Values = std::vector<c10::IValue>;
using Shapes = std::vector<at::Tensor>;

at::Tensor Like(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return {};
  return at::empty_like(value.toTensor());
}

at::Tensor Sized(const c10::IValue& like, c10::IntArrayRef sizes) {
  return at::empty(sizes, like.toTensor().options());
}

int64_t Channels(const c10::IValue& input) {
  return input.toTensor().size(1);
}

// Removes results that the last argument, a mask, does not ask for.
Shapes Asked(const Values& arguments, Shapes shapes) {
  const c10::List<bool> mask = arguments.back().toBoolList();
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!mask[i]) shapes[i] = at::Tensor();
  }
  return shapes;
}

Shapes IndexSelect(const Values& a) {
  std::vector<int64_t> sizes = a[0].toTensor().sizes().vec();
  const int64_t dimension = a[1].toInt();
  if (sizes.empty()) return {Like(a[0])};
  sizes.at(dimension < 0 ? dimension + sizes.size() : dimension) = a[2].toTensor().numel();
  return {Sized(a[0], sizes)};
}

Shapes EmbeddingBackward(const Values& a) {
  return {Sized(a[0], {a[2].toInt(), a[0].toTensor().size(-1)})};
}

Shapes LayerNorm(const Values& a) {
  std::vector<int64_t> sizes = a[0].toTensor().sizes().vec();
  std::fill(sizes.end() - static_cast<int64_t>(a[1].toIntVector().size()), sizes.end(), 1);
  return {Like(a[0]), Sized(a[0], sizes), Sized(a[0], sizes)};
}

Shapes LayerNormBackward(const Values& a) {
  return Asked(a, {Like(a[1]), Like(a[5]), Like(a[6])});
}

// Returns the argument with the type of statistics and gradients by channel: the weight, if any.
const c10::IValue& ByChannel(const c10::IValue& input, const c10::IValue& weight) {
  return weight.isTensor() && weight.toTensor().defined() ? weight : input;
}

Shapes BatchNorm(const Values& a) {
  const int64_t saved = a[5].toBool() ? Channels(a[0]) : 0;
  const c10::IValue& like = ByChannel(a[0], a[1]);
  return {Like(a[0]), Sized(like, {saved}), Sized(like, {saved})};
}

Shapes BatchNormBackward(const Values& a) {
  const at::Tensor channels = Sized(ByChannel(a[1], a[2]), {Channels(a[1])});
  return Asked(a, {Like(a[1]), channels, at::empty_like(channels)});
}

Shapes Convolution(const Values& a) {
  if (a[6].toBool()) return {};  // transposed
  // A single number is for all dimensions.
  const auto number = [&](size_t argument, int64_t dimension) {
    const std::vector<int64_t> all = a[argument].toIntVector();
    return all[all.size() == 1 ? 0 : static_cast<size_t>(dimension)];
  };
  const at::Tensor input = a[0].toTensor(), weight = a[1].toTensor();
  std::vector<int64_t> sizes = {input.size(0), weight.size(0)};
  for (int64_t i = 0; i < input.dim() - 2; ++i) {
    const int64_t reach = number(5, i) * (weight.size(i + 2) - 1) + 1;
    sizes.push_back((input.size(i + 2) + 2 * number(4, i) - reach) / number(3, i) + 1);
  }
  return {Sized(a[0], sizes)};
}

Shapes ConvolutionBackward(const Values& a) {
  return Asked(a, {Like(a[1]), Like(a[2]), Sized(a[0], {Channels(a[0])})});
}

// For arguments with the usual order of strides.
Shapes Where(const Values& a) {
  const at::Tensor condition = a[0].toTensor(), self = a[1].toTensor(), other = a[2].toTensor();
  const auto sizes = at::infer_size(condition.sizes(), at::infer_size(self.sizes(), other.sizes()));
  return {at::empty(sizes, condition.options().dtype(at::result_type(self, other)))};
}

Shapes Logical(const Values& a) {
  return {Sized(a[0], at::infer_size(a[0].toTensor().sizes(), a[1].toTensor().sizes()))};
}

// Returns no shapes if they are unknown.
using Rule = std::function<Shapes(const Values&)>;

Rule LikeArgument(size_t index) {
  return [index](const Values& arguments) { return Shapes{Like(arguments[index])}; };
}

const std::map<std::string, Rule>& Rules() {
  static const auto* const rules = new std::map<std::string, Rule>{
      {"aten::relu", LikeArgument(0)},
      {"aten::roll", LikeArgument(0)},
      {"aten::where.self", Where},
      {"aten::where.self_out", Where},
      {"aten::logical_and.out", Logical},
      {"aten::logical_or.out", Logical},
      {"aten::logical_not.out", LikeArgument(0)},
      {"aten::mse_loss_backward", LikeArgument(1)},
      {"aten::index_select", IndexSelect},
      {"aten::embedding_dense_backward", EmbeddingBackward},
      {"aten::native_layer_norm", LayerNorm},
      {"aten::native_layer_norm_backward", LayerNormBackward},
      {"aten::native_batch_norm", BatchNorm},
      {"aten::native_batch_norm_backward", BatchNormBackward},
      {"aten::convolution", Convolution},
      {"aten::convolution_backward", ConvolutionBackward},
  };
  return *rules;
}

}  // namespace

std::optional<Values> ShapesOf(const std::string& operation, const Values& arguments) {
  const auto rule = Rules().find(operation);
  if (rule == Rules().end()) return std::nullopt;
  const Shapes shapes = rule->second(arguments);
  if (shapes.empty()) return std::nullopt;
  return Values(shapes.begin(), shapes.end());
}

}  // namespace ddprun::simulated
