#include "trainer/optim/one_state.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sign.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <utility>

#include "trainer/optim/with_rate.h"

namespace ddprun::trainer {

namespace {

using Tensors = std::vector<at::Tensor>;

// The parameters of a step with their gradients and states.
struct Operands {
  Tensors values;
  Tensors gradients;
  Tensors states;
  double weight_decay = 0;
};

class OneStateOptimizer : public Optimizer {
 public:
  // `name`: of the state, as in the state_dict of the optimizer in Python.
  OneStateOptimizer(std::string name, std::vector<ParameterGroup> groups)
      : Optimizer(std::move(groups)), name_(std::move(name)) {
    for (const ParameterGroup& group : groups_) states_.emplace_back(group.parameters.size());
  }

 protected:
  virtual void Update(const Operands& operands, const DeviceScalar& learning_rate) = 0;

 private:
  struct State {
    at::Tensor tensor;
    at::Tensor step;  // float32 scalar on the parameter's device, so that a graph counts, too
  };

  static State NewState(const at::Tensor& parameter) {
    return {at::zeros_like(parameter), at::zeros({}, parameter.options().dtype(at::kFloat))};
  }

  void StepGroup(size_t group,
                 std::span<const size_t> members,
                 const DeviceScalar& learning_rate) override {
    Operands operands;
    operands.weight_decay = groups_[group].weight_decay;
    Tensors steps;
    for (const size_t i : members) {
      const at::Tensor& parameter = groups_[group].parameters[i];
      if (!parameter.grad().defined()) continue;
      State& state = states_[group][i];
      if (!state.step.defined()) state = NewState(parameter);
      operands.values.push_back(parameter);
      operands.gradients.push_back(parameter.grad());
      operands.states.push_back(state.tensor);
      steps.push_back(state.step);
    }
    if (steps.empty()) return;
    at::_foreach_add_(steps, 1);
    Update(operands, learning_rate);
  }

  void NameStateOf(size_t group,
                   size_t member,
                   const std::string& prefix,
                   StateVisitor& visitor) override {
    State& state = states_[group][member];
    int64_t steps = state.step.defined() ? std::llround(state.step.item<double>()) : 0;
    visitor.Number(prefix + "step", steps);
    if (steps == 0) {
      state = {};
      return;
    }
    if (!state.step.defined()) state = NewState(groups_[group].parameters[member]);
    state.step.fill_(steps);
    visitor.Tensor(prefix + name_, state.tensor, PlacementOf(group, member));
  }

  const std::string name_;
  std::vector<std::vector<State>> states_;  // by group, by parameter
};

class Adagrad final : public OneStateOptimizer {
 public:
  Adagrad(const OptimizerOptions& options, std::vector<ParameterGroup> groups)
      : OneStateOptimizer("sum", std::move(groups)), eps_(options.eps) {}

 private:
  void Update(const Operands& operands, const DeviceScalar& learning_rate) override {
    Tensors gradients = operands.gradients;
    if (operands.weight_decay != 0) {
      gradients = at::_foreach_add(gradients, operands.values, operands.weight_decay);
    }
    at::_foreach_addcmul_(operands.states, gradients, gradients, 1);
    Tensors deviations = at::_foreach_sqrt(operands.states);
    at::_foreach_add_(deviations, eps_);
    Tensors updates = at::_foreach_div(gradients, deviations);
    WithRate(learning_rate, [&](const auto& rate) { at::_foreach_mul_(updates, rate); });
    at::_foreach_sub_(operands.values, updates);
  }

  const double eps_;
};

class Lion final : public OneStateOptimizer {
 public:
  Lion(const OptimizerOptions& options, std::vector<ParameterGroup> groups)
      : OneStateOptimizer("exp_avg", std::move(groups)), betas_(options.betas) {}

 private:
  void Update(const Operands& operands, const DeviceScalar& learning_rate) override {
    Tensors updates = at::_foreach_mul(operands.states, betas_[0]);
    at::_foreach_add_(updates, operands.gradients, 1 - betas_[0]);
    at::_foreach_sign_(updates);
    WithRate(learning_rate, [&](const auto& rate) {
      if (operands.weight_decay != 0) {
        at::_foreach_mul_(operands.values, 1.0 - rate * operands.weight_decay);
      }
      at::_foreach_mul_(updates, rate);
    });
    at::_foreach_sub_(operands.values, updates);
    at::_foreach_mul_(operands.states, betas_[1]);
    at::_foreach_add_(operands.states, operands.gradients, 1 - betas_[1]);
  }

  const std::array<double, 2> betas_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdagrad(const OptimizerOptions& options,
                                       std::vector<ParameterGroup> groups) {
  return std::make_unique<Adagrad>(options, std::move(groups));
}

std::unique_ptr<Optimizer> MakeLion(const OptimizerOptions& options,
                                    std::vector<ParameterGroup> groups) {
  return std::make_unique<Lion>(options, std::move(groups));
}

}  // namespace ddprun::trainer
