#include "trainer/strategies/strategy.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>

#include "base/check.h"

namespace ddprun::trainer {

void Strategy::ScaleGradients(double factor) {
  std::vector<at::Tensor> gradients = Gradients();
  std::erase_if(gradients, [](const at::Tensor& gradient) { return !gradient.defined(); });
  const at::NoGradGuard no_grad;
  if (!gradients.empty()) at::_foreach_mul_(gradients, factor);
}

void Strategy::Rejoin(int /*giver*/) {
  DDPRUN_CHECK(false);  // facts.cc excludes such strategies with run.recovery
}

BatchEvaluation Strategy::EvaluateBatch(Model& model, const Batch& batch, bool with_outputs) {
  if (!with_outputs) return {.loss = model.Loss(batch)};
  const at::Tensor outputs = model.Outputs(batch);
  return {.loss = model.LossFrom(outputs, batch), .outputs = outputs};
}

}  // namespace ddprun::trainer
