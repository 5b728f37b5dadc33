#include "trainer/models/loss.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>

#include <sstream>
#include <string>

#include "base/failure.h"
#include "trainer/models/layers.h"

namespace ddprun::trainer {

namespace {

std::string Describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
}

Failure DoNotFit(const at::Tensor& outputs, const at::Tensor& targets, const std::string& wanted) {
  return Failure(
      Error{.code = Code::kUsage,
            .title = "OUTPUTS AND TARGETS DO NOT FIT",
            .what = "The model gives " + Describe(outputs) + " and the data has targets " +
                    Describe(targets) + "; " + wanted + ".",
            .hint = "Set training.loss to the loss that is meant, or make the model's last size "
                    "that of the data.",
            .page = "loss-does-not-fit"});
}

at::Tensor LossOfClasses(const at::Tensor& outputs, const Batch& batch, double smoothing) {
  const at::Tensor& targets = batch.targets;
  const bool fits = targets.scalar_type() == at::kLong && outputs.dim() == targets.dim() + 1 &&
                    outputs.sizes().slice(0, targets.dim()) == targets.sizes();
  if (!fits) {
    throw DoNotFit(outputs, targets,
                   "cross-entropy needs integer targets, and for each of them a score per class");
  }
  const int64_t classes = outputs.size(-1);
  const at::Tensor flat = targets.reshape({-1});
  // Checks the classes, because in some kernels a wrong class reads memory out of range. This is
  // cheap, because targets are few compared with scores.
  const int64_t largest = LargestTarget(batch);
  if (largest >= classes) {
    throw DoNotFit(outputs, targets,
                   "one target is class " + std::to_string(largest) +
                       ", but there are scores for " + std::to_string(classes) + " classes only");
  }
  const at::Tensor scores = outputs.reshape({-1, classes});
  if (!batch.weights.defined()) return CrossEntropy(scores, flat, batch.predictions, smoothing);
  const at::Tensor losses = at::cross_entropy_loss(WidenToFloat(scores), flat, /*weight=*/{},
                                                   at::Reduction::None, kIgnoredTarget, smoothing);
  return losses.mul(batch.weights).sum() / batch.sum_of_weights;
}

at::Tensor MeanSquaredError(const at::Tensor& outputs, const Batch& batch) {
  const at::Tensor& targets = batch.targets;
  const bool column = outputs.dim() == targets.dim() + 1 && outputs.size(-1) == 1;
  const at::Tensor numbers = WidenToFloat(column ? outputs.squeeze(-1) : outputs);
  if (numbers.sizes() != targets.sizes()) {
    throw DoNotFit(outputs, targets, "the mean squared error needs equal shapes");
  }
  const at::Tensor wanted = targets.to(numbers.scalar_type());
  if (!batch.weights.defined()) return at::mse_loss(numbers, wanted);
  const at::Tensor errors = at::mse_loss(numbers, wanted, at::Reduction::None);
  const at::Tensor of_samples = errors.reshape({batch.samples, -1}).mean(1);
  return of_samples.mul(batch.weights).sum() / batch.sum_of_weights;
}

}  // namespace

at::Tensor LossOf(const LossOptions& options,
                  const at::Tensor& outputs,
                  const Batch& batch,
                  bool training) {
  const double smoothing = training ? options.label_smoothing : 0;
  const bool integers = batch.targets.scalar_type() == at::kLong;
  switch (options.kind) {
    case Loss::kAuto:
      break;
    case Loss::kMse:
      return MeanSquaredError(outputs, batch);
    case Loss::kCrossEntropy:
    case Loss::kCausalLm:
      return LossOfClasses(outputs, batch, smoothing);
  }
  return integers ? LossOfClasses(outputs, batch, smoothing) : MeanSquaredError(outputs, batch);
}

}  // namespace ddprun::trainer
