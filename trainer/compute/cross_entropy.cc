#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "trainer/compute/device.h"
#include "trainer/compute/kernels.h"
#include "trainer/compute/matmul.h"
#include "trainer/compute/operations.h"
#include "trainer/compute/precision.h"

// N is the number of predictions, C the width, V the vocabulary.
namespace ddprun::trainer {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kIgnored = -100;  // the default of torch.nn.functional.cross_entropy
// The size of a piece of scores: enough rows for a fast product, half of a CPU's caches.
constexpr int64_t kPieceBytes = int64_t{32} << 20;
constexpr int64_t kDevicePieceBytes = int64_t{256} << 20;

// Add() sums the losses of scores [n, V] with targets [n], and replaces the scores by LossScale()
// times the derivatives of the mean loss over all targets that count.
class RowLosses {
 public:
  virtual ~RowLosses() = default;
  virtual void Add(at::Tensor& scores, const at::Tensor& targets) = 0;
  // Returns a scalar; 0 if no target counts.
  virtual at::Tensor Mean(const at::TensorOptions& options) const = 0;
};

class HostRowLosses final : public RowLosses {
 public:
  HostRowLosses(const at::Tensor& targets, int64_t classes, double smoothing)
      : smoothing_(smoothing) {
    const int64_t count = CountTargets(targets, classes);
    mean_ = count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
  }

  void Add(at::Tensor& scores, const at::Tensor& targets) override {
    const auto* of_rows = targets.const_data_ptr<int64_t>();
    switch (scores.scalar_type()) {
      case at::kHalf:
        sum_ += Sum<at::Half>(scores, of_rows);
        break;
      case at::kBFloat16:
        sum_ += Sum<at::BFloat16>(scores, of_rows);
        break;
      default:
        sum_ += Sum<float>(scores, of_rows);
    }
  }

  at::Tensor Mean(const at::TensorOptions& options) const override {
    return at::scalar_tensor(sum_ * mean_, options);
  }

 private:
  template <typename T>
  double Sum(at::Tensor& scores, const int64_t* targets) const {
    const int64_t classes = scores.size(1);
    T* data = scores.mutable_data_ptr<T>();
    const float scale = mean_ * static_cast<float>(LossScale());
    std::vector<double> losses(static_cast<size_t>(scores.size(0)));
    at::parallel_for(0, scores.size(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* values = data + row * classes;
        if (targets[row] == kIgnored) {
          std::fill(values, values + classes, T(0));
        } else {
          losses[static_cast<size_t>(row)] =
              CrossEntropyRow(values, classes, targets[row], scale, smoothing_);
        }
      }
    });
    double sum = 0;
    for (const double loss : losses) sum += loss;
    return sum;
  }

  // Returns the number of targets that count.
  static int64_t CountTargets(const at::Tensor& targets, int64_t classes) {
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

  const double smoothing_;
  float mean_ = 0;
  double sum_ = 0;
};

// Does not wait for the device. Also used for float64 on the CPU.
class DeviceRowLosses final : public RowLosses {
 public:
  DeviceRowLosses(const at::Tensor& targets, at::ScalarType type, double smoothing)
      : smoothing_(smoothing),
        mean_(targets.ne(kIgnored).sum().clamp_min(1).to(type).reciprocal()),
        sum_(at::zeros({}, targets.options().dtype(at::kDouble))) {}

  void Add(at::Tensor& scores, const at::Tensor& targets) override {
    at::Tensor logs = at::log_softmax(scores, 1, mean_.scalar_type());
    const at::Tensor ignored = targets.eq(kIgnored);
    // A target out of range makes the loss NaN.
    const at::Tensor index = targets.clamp(0, scores.size(1) - 1);
    const at::Tensor bad = index.ne(targets).logical_and_(ignored.logical_not());
    const at::Tensor rows = index.unsqueeze(1);
    at::Tensor losses = logs.gather(1, rows).squeeze(1).neg();
    const double kept = 1 - smoothing_;
    if (smoothing_ > 0) losses.mul_(kept).sub_(logs.mean(1), smoothing_);
    losses.masked_fill_(ignored, 0).masked_fill_(bad, std::numeric_limits<float>::quiet_NaN());
    sum_.add_(losses.sum(at::kDouble));
    logs.exp_().scatter_add_(1, rows, at::full({rows.size(0), 1}, -kept, logs.options()));
    if (smoothing_ > 0) logs.sub_(smoothing_ / static_cast<double>(scores.size(1)));
    const at::Tensor counted = ignored.logical_not().to(mean_.scalar_type());
    logs.mul_(counted.mul_(mean_).mul_(LossScale()).unsqueeze(1));
    scores.copy_(logs);
  }

  at::Tensor Mean(const at::TensorOptions& options) const override {
    return sum_.mul(mean_).to(options.dtype());
  }

 private:
  const double smoothing_;
  const at::Tensor mean_;  // float32 or float64, like the losses
  at::Tensor sum_;         // float64
};

std::unique_ptr<RowLosses> MakeRowLosses(const at::Tensor& targets,
                                         int64_t classes,
                                         at::ScalarType type,
                                         double smoothing) {
  const bool exact = type == at::kDouble;
  if (!IsForHostKernels(targets) || exact) {
    return std::make_unique<DeviceRowLosses>(targets, exact ? at::kDouble : at::kFloat, smoothing);
  }
  return std::make_unique<HostRowLosses>(targets, classes, smoothing);
}

struct Result {
  at::Tensor loss;
  at::Tensor of_hidden;  // gradients, undefined if not needed
  at::Tensor of_weight;  // also undefined if the weight is frozen
};

Result Compute(const at::Tensor& hidden,
               const at::Tensor& weight,
               const at::Tensor& targets,
               double smoothing,
               bool want_gradients) {
  const int64_t classes = weight.size(0);
  const std::unique_ptr<RowLosses> losses =
      MakeRowLosses(targets, classes, weight.scalar_type(), smoothing);
  const at::ScalarType type = ComputeType(weight.scalar_type());
  const at::Tensor rows = hidden.to(type).contiguous();
  const at::Tensor factor = weight.to(type);
  Result result;
  if (want_gradients) {
    result.of_hidden = at::empty_like(rows);
    // The sum over pieces is float32.
    if (weight.requires_grad()) result.of_weight = at::zeros(weight.sizes(), weight.options());
  }
  const int64_t row_bytes = classes * static_cast<int64_t>(rows.element_size());
  const int64_t piece = std::clamp<int64_t>(ScorePieceBytes(rows) / row_bytes, 1, rows.size(0));
  const at::Tensor buffer = MatrixFor(rows, piece, classes);
  for (int64_t begin = 0; begin < rows.size(0); begin += piece) {
    const int64_t length = std::min(piece, rows.size(0) - begin);
    const at::Tensor part = rows.narrow(0, begin, length);
    at::Tensor scores = buffer.narrow(0, 0, length);
    Multiply(part, factor.t(), scores);
    losses->Add(scores, targets.narrow(0, begin, length));
    if (!want_gradients) continue;
    at::Tensor of_part = result.of_hidden.narrow(0, begin, length);
    Multiply(scores, factor, of_part);
    if (!result.of_weight.defined()) continue;
    if (TypeOfProducts(rows, weight.scalar_type()) == weight.scalar_type()) {
      Multiply(scores.t(), part, result.of_weight, /*accumulate=*/true);
    } else {
      result.of_weight.add_(scores.t().mm(part));
    }
  }
  result.loss = losses->Mean(weight.options());
  return result;
}

class LinearCrossEntropyFunction : public torch::autograd::Function<LinearCrossEntropyFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& hidden,
                            const at::Tensor& weight,
                            const at::Tensor& targets,
                            double smoothing,
                            bool want_gradients) {
    Result result = Compute(hidden, weight, targets.contiguous(), smoothing, want_gradients);
    if (want_gradients) {
      context->saved_data["of_hidden"] = result.of_hidden;
      if (result.of_weight.defined()) context->saved_data["of_weight"] = result.of_weight;
      context->saved_data["type_of_hidden"] = hidden.scalar_type();
      context->saved_data["loss_scale"] = LossScale();
    }
    return result.loss;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor factor = gradients[0] / context->saved_data["loss_scale"].toDouble();
    // A factor of 1 saves a pass over both gradients. It is read only on the CPU, without waiting.
    const bool read = IsForHostKernels(factor);
    const double number = read ? factor.item<double>() : 0;
    const auto take = [&](const char* name) {
      TORCH_CHECK(context->saved_data.count(name) == 1,
                  "LinearCrossEntropy: backward can run once only.");
      // Taken out, because autograd adopts a gradient without other owners instead of copying it.
      at::Tensor tensor = context->saved_data[name].toTensor();
      context->saved_data.erase(name);
      if (!read) return tensor.mul_(factor);
      return number == 1.0 ? tensor : tensor.mul_(number);
    };
    const at::ScalarType type = context->saved_data["type_of_hidden"].toScalarType();
    at::Tensor of_hidden = take("of_hidden").to(type);
    const bool trained = context->needs_input_grad(1);
    return {of_hidden, trained ? take("of_weight") : at::Tensor(), {}, {}, {}};
  }
};

}  // namespace

int64_t ScorePieceBytes(const at::Tensor& hidden) {
  return IsForHostKernels(hidden) ? kPieceBytes : kDevicePieceBytes;
}

at::Tensor LinearCrossEntropy(const at::Tensor& hidden,
                              const at::Tensor& weight,
                              const at::Tensor& targets,
                              double smoothing) {
  const bool want_gradients =
      at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  return LinearCrossEntropyFunction::apply(hidden, weight, targets, smoothing, want_gradients);
}

}  // namespace ddprun::trainer
