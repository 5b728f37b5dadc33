#include "trainer/optim/adaptive.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sign.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>

#include <utility>

#include "trainer/optim/counted_optimizer.h"
#include "trainer/optim/with_rate.h"

namespace ddprun::trainer {

namespace {

class Adam final : public CountedOptimizer {
 public:
  Adam(const OptimizerOptions& options, std::vector<ParameterGroup> groups)
      : CountedOptimizer({"exp_avg", "exp_avg_sq"}, std::move(groups)), options_(options) {}

 private:
  void Update(const Operands& operands, const DeviceScalar& learning_rate) override {
    const double beta1 = options_.betas[0];
    const double beta2 = options_.betas[1];
    WithRate(learning_rate, [&](const auto& rate) {
      if (options_.kind == OptimizerType::kAdamW) {
        at::_fused_adamw_(operands.values, operands.gradients, operands.states[0],
                          operands.states[1],
                          /*max_exp_avg_sqs=*/{}, operands.steps, rate, beta1, beta2,
                          operands.weight_decay, options_.eps,
                          /*amsgrad=*/false,
                          /*maximize=*/false);
      } else {
        at::_fused_adam_(operands.values, operands.gradients, operands.states[0],
                         operands.states[1],
                         /*max_exp_avg_sqs=*/{}, operands.steps, rate, beta1, beta2,
                         operands.weight_decay, options_.eps,
                         /*amsgrad=*/false,
                         /*maximize=*/false);
      }
    });
  }

  const OptimizerOptions options_;
};

class Adagrad final : public CountedOptimizer {
 public:
  Adagrad(const OptimizerOptions& options, std::vector<ParameterGroup> groups)
      : CountedOptimizer({"sum"}, std::move(groups)), eps_(options.eps) {}

 private:
  void Update(const Operands& operands, const DeviceScalar& learning_rate) override {
    Tensors gradients = operands.gradients;
    if (operands.weight_decay != 0) {
      gradients = at::_foreach_add(gradients, operands.values, operands.weight_decay);
    }
    const Tensors& sums = operands.states[0];
    at::_foreach_addcmul_(sums, gradients, gradients, 1);
    Tensors deviations = at::_foreach_sqrt(sums);
    at::_foreach_add_(deviations, eps_);
    Tensors updates = at::_foreach_div(gradients, deviations);
    WithRate(learning_rate, [&](const auto& rate) { at::_foreach_mul_(updates, rate); });
    at::_foreach_sub_(operands.values, updates);
  }

  const double eps_;
};

class Lion final : public CountedOptimizer {
 public:
  Lion(const OptimizerOptions& options, std::vector<ParameterGroup> groups)
      : CountedOptimizer({"exp_avg"}, std::move(groups)), betas_(options.betas) {}

 private:
  void Update(const Operands& operands, const DeviceScalar& learning_rate) override {
    const Tensors& means = operands.states[0];
    Tensors updates = at::_foreach_mul(means, betas_[0]);
    at::_foreach_add_(updates, operands.gradients, 1 - betas_[0]);
    at::_foreach_sign_(updates);
    WithRate(learning_rate, [&](const auto& rate) {
      if (operands.weight_decay != 0) {
        at::_foreach_mul_(operands.values, 1.0 - rate * operands.weight_decay);
      }
      at::_foreach_mul_(updates, rate);
    });
    at::_foreach_sub_(operands.values, updates);
    at::_foreach_mul_(means, betas_[1]);
    at::_foreach_add_(means, operands.gradients, 1 - betas_[1]);
  }

  const std::array<double, 2> betas_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdam(const OptimizerOptions& options,
                                    std::vector<ParameterGroup> groups) {
  return std::make_unique<Adam>(options, std::move(groups));
}

std::unique_ptr<Optimizer> MakeAdagrad(const OptimizerOptions& options,
                                       std::vector<ParameterGroup> groups) {
  return std::make_unique<Adagrad>(options, std::move(groups));
}

std::unique_ptr<Optimizer> MakeLion(const OptimizerOptions& options,
                                    std::vector<ParameterGroup> groups) {
  return std::make_unique<Lion>(options, std::move(groups));
}

}  // namespace ddprun::trainer
