#include "trainer/compute/operations.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "trainer/compute/kernels.h"
#include "trainer/compute/matmul.h"
#include "trainer/compute/precision.h"

// N predictions, C width, V vocabulary.
namespace ddprun::trainer {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kIgnored = -100;  // as torch.nn.functional.cross_entropy
// Of one piece of scores: rows enough for a fast product, memory that the caches half hold.
constexpr int64_t kPieceBytes = int64_t{32} << 20;

// The sum of the rows' losses; the scores become their derivatives, times `scale`.
template <typename T>
double RowLosses(at::Tensor& scores, const int64_t* targets, float scale) {
  const int64_t classes = scores.size(1);
  T* data = scores.mutable_data_ptr<T>();
  std::vector<double> losses(static_cast<size_t>(scores.size(0)));
  at::parallel_for(0, scores.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* values = data + row * classes;
      if (targets[row] == kIgnored) {
        std::fill(values, values + classes, T(0));
      } else {
        losses[static_cast<size_t>(row)] = CrossEntropyRow(values, classes, targets[row], scale);
      }
    }
  });
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

// The number of targets that count.
int64_t CountTargets(const at::Tensor& targets, int64_t classes) {
  const int64_t* values = targets.const_data_ptr<int64_t>();
  int64_t count = 0;
  for (int64_t i = 0; i < targets.numel(); ++i) {
    if (values[i] == kIgnored) continue;
    TORCH_CHECK_INDEX(values[i] >= 0 && values[i] < classes, "Target ", values[i],
                      " is out of bounds for ", classes, " classes.");
    ++count;
  }
  return count;
}

struct Result {
  double loss = 0;
  at::Tensor of_hidden;  // gradients; undefined unless wanted
  at::Tensor of_weight;
};

Result Compute(const at::Tensor& hidden,
               const at::Tensor& weight,
               const at::Tensor& targets,
               bool want_gradients) {
  const int64_t classes = weight.size(0);
  const int64_t count = CountTargets(targets, classes);
  const at::ScalarType type = ComputeType();
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
  const at::Tensor rows = hidden.to(type).contiguous();
  const at::Tensor factor = weight.to(type);
  Result result;
  if (want_gradients) {
    result.of_hidden = at::empty_like(rows);
    // Sums over pieces are kept in float32.
    result.of_weight = at::zeros(weight.sizes(), weight.options());
  }
  const float scale = count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
  const int64_t row_bytes = classes * static_cast<int64_t>(rows.element_size());
  const int64_t piece = std::clamp<int64_t>(kPieceBytes / row_bytes, 1, rows.size(0));
  at::Tensor buffer = at::empty({piece, classes}, rows.options());
  for (int64_t begin = 0; begin < rows.size(0); begin += piece) {
    const int64_t length = std::min(piece, rows.size(0) - begin);
    const at::Tensor part = rows.narrow(0, begin, length);
    at::Tensor scores = buffer.narrow(0, 0, length);
    Multiply(part, factor.t(), scores);
    const int64_t* of_rows = targets.const_data_ptr<int64_t>() + begin;
    result.loss += type == at::kFloat ? RowLosses<float>(scores, of_rows, scale)
                                      : RowLosses<at::BFloat16>(scores, of_rows, scale);
    if (!want_gradients) continue;
    at::Tensor of_part = result.of_hidden.narrow(0, begin, length);
    Multiply(scores, factor, of_part);
    if (type == weight.scalar_type()) {
      Multiply(scores.t(), part, result.of_weight, /*accumulate=*/true);
    } else {
      result.of_weight.add_(scores.t().mm(part));
    }
  }
  result.loss *= scale;
  return result;
}

class LinearCrossEntropyFunction : public torch::autograd::Function<LinearCrossEntropyFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& hidden,
                            const at::Tensor& weight,
                            const at::Tensor& targets,
                            bool want_gradients) {
    Result result = Compute(hidden, weight, targets.contiguous(), want_gradients);
    if (want_gradients) {
      context->saved_data["of_hidden"] = result.of_hidden;
      context->saved_data["of_weight"] = result.of_weight;
      context->saved_data["type_of_hidden"] = hidden.scalar_type();
    }
    return at::scalar_tensor(result.loss, weight.options());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const double factor = gradients[0].item<double>();
    const auto take = [&](const char* name) {
      TORCH_CHECK(context->saved_data.count(name) == 1,
                  "LinearCrossEntropy: backward can run once only.");
      // Taken out: a gradient that nobody else holds is adopted instead of copied.
      at::Tensor tensor = context->saved_data[name].toTensor();
      context->saved_data.erase(name);
      return factor == 1.0 ? tensor : tensor.mul_(factor);
    };
    const at::ScalarType type = context->saved_data["type_of_hidden"].toScalarType();
    at::Tensor of_hidden = take("of_hidden").to(type);
    return {of_hidden, take("of_weight"), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor LinearCrossEntropy(const at::Tensor& hidden,
                              const at::Tensor& weight,
                              const at::Tensor& targets) {
  const bool want_gradients =
      at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  return LinearCrossEntropyFunction::apply(hidden, weight, targets, want_gradients);
}

}  // namespace ddprun::trainer
