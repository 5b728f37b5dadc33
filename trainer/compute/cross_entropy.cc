#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "trainer/compute/device.h"
#include "trainer/compute/device_kernels.h"
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

// Some rows of the scores, [n, V]. Both tensors are made by MatrixFor().
struct Piece {
  at::Tensor scores;       // overwritten
  at::Tensor derivatives;  // receives them, in the type of products; may be the scores
};

class RowLosses {
 public:
  virtual ~RowLosses() = default;
  // Sums the losses of the piece with targets [n]. Computes Divisor() times the derivatives of the
  // mean loss over all targets that count, if they are wanted.
  virtual void Add(Piece& piece, const at::Tensor& targets) = 0;
  // Returns a scalar; 0 if no target counts.
  virtual at::Tensor Mean(const at::TensorOptions& options) const = 0;
  virtual at::Tensor Divisor() const = 0;  // a scalar
  // Returns the rows [N, C], with zeros in place of those whose target does not count, if Add()
  // computes other derivatives than 0 for them.
  virtual at::Tensor OnlyCounted(const at::Tensor& rows) const = 0;
};

class HostRowLosses final : public RowLosses {
 public:
  HostRowLosses(const at::Tensor& targets, int64_t classes, double smoothing)
      : smoothing_(smoothing) {
    const int64_t count = CountTargets(targets, classes);
    mean_ = count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
  }

  void Add(Piece& piece, const at::Tensor& targets) override {
    const auto* of_rows = targets.const_data_ptr<int64_t>();
    switch (piece.scores.scalar_type()) {
      case at::kHalf:
        sum_ += Sum<at::Half>(piece.scores, of_rows);
        break;
      case at::kBFloat16:
        sum_ += Sum<at::BFloat16>(piece.scores, of_rows);
        break;
      default:
        sum_ += Sum<float>(piece.scores, of_rows);
    }
  }

  at::Tensor Mean(const at::TensorOptions& options) const override {
    return at::scalar_tensor(sum_ * mean_, options);
  }
  at::Tensor Divisor() const override { return at::scalar_tensor(LossScale(), at::kDouble); }
  at::Tensor OnlyCounted(const at::Tensor& rows) const override { return rows; }

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
//
// Each pass over the scores takes time, because a device's memory is slow beside its arithmetic.
// Hence scores are float32 as the product writes them, the softmax reads rows with their padding
// (without it ATen copies them first), and exp() writes the type of products. Only single numbers
// change after that: what is the same for all rows is left to the Divisor().
class DeviceRowLosses final : public RowLosses {
 public:
  DeviceRowLosses(const at::Tensor& targets, at::ScalarType type, double smoothing, bool derives)
      : smoothing_(smoothing),
        derives_(derives),
        counted_(targets.ne(kIgnored)),
        count_(counted_.sum().clamp_min(1).to(type)),
        sum_(at::zeros({}, targets.options().dtype(at::kDouble))) {}

  void Add(Piece& piece, const at::Tensor& targets) override {
    const int64_t classes = piece.scores.size(1);
    const at::Tensor padded = WithPadding(piece.scores);
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    if (padded.size(1) > classes) padded.narrow(1, classes, padded.size(1) - classes).fill_(kNone);
    at::Tensor padded_logs = at::log_softmax(padded, 1, count_.scalar_type());
    at::Tensor logs = padded_logs.narrow(1, 0, classes);
    const at::Tensor ignored = targets.eq(kIgnored);
    // A target out of range makes the loss NaN.
    const at::Tensor index = targets.clamp(0, classes - 1);
    const at::Tensor bad = index.ne(targets).logical_and_(ignored.logical_not());
    const at::Tensor columns = index.unsqueeze(1);
    const at::Tensor of_targets = logs.gather(1, columns);
    at::Tensor losses = of_targets.squeeze(1).neg();
    const double each = smoothing_ / static_cast<double>(classes);
    if (smoothing_ > 0) losses.mul_(1 - smoothing_).sub_(logs.mean(1), smoothing_);
    losses.masked_fill_(ignored, 0).masked_fill_(bad, std::numeric_limits<float>::quiet_NaN());
    sum_.add_(losses.sum(at::kDouble));
    if (!derives_) return;
    if (smoothing_ > 0) {
      piece.derivatives.copy_(logs.exp_().sub_(each));
    } else {
      at::Tensor whole = WithPadding(piece.derivatives);
      at::exp_out(whole, padded_logs);
    }
    // exp(x) - 1 is exact here for a target that is almost certain.
    const at::Tensor exact = of_targets.expm1().add_(smoothing_ - each);
    piece.derivatives.scatter_(1, columns, exact.to(piece.derivatives.scalar_type()));
  }

  at::Tensor Mean(const at::TensorOptions& options) const override {
    return sum_.div(count_).to(options.dtype());
  }
  at::Tensor Divisor() const override { return count_; }
  at::Tensor OnlyCounted(const at::Tensor& rows) const override {
    return rows.mul(counted_.to(rows.scalar_type()).unsqueeze(1));
  }

 private:
  // Returns the matrix with the numbers between its rows.
  static at::Tensor WithPadding(const at::Tensor& matrix) {
    return matrix.as_strided({matrix.size(0), matrix.stride(0)}, {matrix.stride(0), 1});
  }

  const double smoothing_;
  const bool derives_;
  const at::Tensor counted_;  // bool [N]
  const at::Tensor count_;    // float32 or float64, like the losses; at least 1
  at::Tensor sum_;            // float64
};

// One kernel reads a piece's scores and writes its derivatives.
class KernelRowLosses final : public RowLosses {
 public:
  KernelRowLosses(DeviceKernels& kernels, const at::Tensor& targets, double smoothing, bool derives)
      : kernels_(kernels),
        smoothing_(smoothing),
        derives_(derives),
        count_(targets.ne(kIgnored).sum().clamp_min(1).to(at::kFloat)),
        losses_(at::empty(targets.sizes(), targets.options().dtype(at::kFloat))) {}

  void Add(Piece& piece, const at::Tensor& targets) override {
    kernels_.RowLosses({.scores = piece.scores,
                        .derivatives = derives_ ? piece.derivatives : at::Tensor(),
                        .targets = targets,
                        .losses = losses_.narrow(0, rows_, targets.size(0)),
                        .smoothing = smoothing_});
    rows_ += targets.size(0);
  }

  at::Tensor Mean(const at::TensorOptions& options) const override {
    return losses_.sum(at::kDouble).div(count_).to(options.dtype());
  }
  at::Tensor Divisor() const override { return count_; }
  at::Tensor OnlyCounted(const at::Tensor& rows) const override { return rows; }

 private:
  DeviceKernels& kernels_;
  const double smoothing_;
  const bool derives_;
  const at::Tensor count_;   // float32, at least 1
  const at::Tensor losses_;  // float32 [N]
  int64_t rows_ = 0;         // that have losses
};

// `rows`: in the type of products. `type`: the weight's.
std::unique_ptr<RowLosses> MakeRowLosses(const at::Tensor& rows,
                                         const at::Tensor& targets,
                                         int64_t classes,
                                         at::ScalarType type,
                                         double smoothing,
                                         bool want_gradients) {
  const bool exact = type == at::kDouble;
  DeviceKernels* const kernels = KernelsFor(rows, rows.scalar_type());
  if (kernels != nullptr && TypeOfProducts(rows, at::kFloat) == at::kFloat) {
    return std::make_unique<KernelRowLosses>(*kernels, targets, smoothing, want_gradients);
  }
  if (!IsForHostKernels(targets) || exact) {
    return std::make_unique<DeviceRowLosses>(targets, exact ? at::kDouble : at::kFloat, smoothing,
                                             want_gradients);
  }
  return std::make_unique<HostRowLosses>(targets, classes, smoothing);
}

struct Result {
  at::Tensor loss;
  at::Tensor of_hidden;  // gradients times the divisor, undefined if not needed
  at::Tensor of_weight;  // also undefined if the weight is frozen
  at::Tensor divisor;    // a scalar
};

Result Compute(const at::Tensor& hidden,
               const at::Tensor& weight,
               const at::Tensor& targets,
               double smoothing,
               bool want_gradients) {
  const int64_t classes = weight.size(0);
  const at::ScalarType type = ComputeType(weight.scalar_type());
  const at::Tensor given = hidden.to(type).contiguous();
  const std::unique_ptr<RowLosses> losses =
      MakeRowLosses(given, targets, classes, weight.scalar_type(), smoothing, want_gradients);
  const at::Tensor rows = losses->OnlyCounted(given);
  const at::Tensor factor = weight.to(type);
  Result result;
  if (want_gradients) {
    result.of_hidden = at::empty_like(rows);
    // The sum over pieces is float32.
    if (weight.requires_grad()) result.of_weight = at::zeros(weight.sizes(), weight.options());
  }
  const int64_t row_bytes = classes * static_cast<int64_t>(rows.element_size());
  const int64_t piece = std::clamp<int64_t>(ScorePieceBytes(rows) / row_bytes, 1, rows.size(0));
  const at::Tensor derivatives = MatrixFor(rows, piece, classes);
  const at::ScalarType exact = TypeOfProducts(rows, at::kFloat);
  const at::Tensor scores = exact == type ? derivatives : MatrixFor(rows, piece, classes, exact);
  for (int64_t begin = 0; begin < rows.size(0); begin += piece) {
    const int64_t length = std::min(piece, rows.size(0) - begin);
    const at::Tensor part = rows.narrow(0, begin, length);
    Piece own = {scores.narrow(0, 0, length), derivatives.narrow(0, 0, length)};
    Multiply(part, factor.t(), own.scores);
    losses->Add(own, targets.narrow(0, begin, length));
    if (!want_gradients) continue;
    at::Tensor of_part = result.of_hidden.narrow(0, begin, length);
    Multiply(own.derivatives, factor, of_part);
    if (!result.of_weight.defined()) continue;
    if (TypeOfProducts(rows, weight.scalar_type()) == weight.scalar_type()) {
      Multiply(own.derivatives.t(), part, result.of_weight, /*accumulate=*/true);
    } else {
      result.of_weight.add_(own.derivatives.t().mm(part));
    }
  }
  if (want_gradients) result.of_hidden = losses->OnlyCounted(result.of_hidden);
  result.loss = losses->Mean(weight.options());
  result.divisor = losses->Divisor();
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
      context->saved_data["divisor"] = result.divisor;
    }
    return result.loss;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor factor = gradients[0] / context->saved_data["divisor"].toTensor();
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
