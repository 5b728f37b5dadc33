#include "trainer/optim/counted_optimizer.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <utility>

namespace ddprun::trainer {

CountedOptimizer::CountedOptimizer(std::vector<std::string> names,
                                   std::vector<ParameterGroup> groups)
    : Optimizer(std::move(groups)), names_(std::move(names)) {
  for (const ParameterGroup& group : groups_) states_.emplace_back(group.parameters.size());
}

CountedOptimizer::State CountedOptimizer::NewState(const at::Tensor& parameter, bool zeros) const {
  State state;
  state.step = at::zeros({}, parameter.options().dtype(at::kFloat));
  for (size_t i = 0; i < names_.size(); ++i) {
    state.tensors.push_back(zeros ? at::zeros_like(parameter) : at::empty_like(parameter));
  }
  return state;
}

void CountedOptimizer::StepGroup(size_t group,
                                 std::span<const size_t> members,
                                 const DeviceScalar& learning_rate) {
  Operands operands;
  operands.states.resize(names_.size());
  operands.weight_decay = groups_[group].weight_decay;
  for (const size_t i : members) {
    const at::Tensor& parameter = groups_[group].parameters[i];
    if (!parameter.grad().defined()) continue;
    State& state = states_[group][i];
    if (!state.step.defined()) state = NewState(parameter, /*zeros=*/true);
    operands.values.push_back(parameter);
    operands.gradients.push_back(parameter.grad());
    for (size_t k = 0; k < names_.size(); ++k) operands.states[k].push_back(state.tensors[k]);
    operands.steps.push_back(state.step);
  }
  if (operands.values.empty()) return;
  at::_foreach_add_(operands.steps, 1);
  Update(operands, learning_rate);
}

void CountedOptimizer::NameStateOf(size_t group,
                                   size_t member,
                                   const std::string& prefix,
                                   StateVisitor& visitor) {
  State& state = states_[group][member];
  int64_t steps = state.step.defined() ? std::llround(state.step.item<double>()) : 0;
  visitor.Number(prefix + "step", steps);
  if (steps == 0) {
    state = {};
    return;
  }
  const StatePlacement placement = PlacementOf(group, member);
  // A part's state begins with zeros, because its padding is not written.
  if (!state.step.defined()) {
    state = NewState(groups_[group].parameters[member], /*zeros=*/!placement.empty());
  }
  state.step.fill_(steps);
  for (size_t k = 0; k < names_.size(); ++k) {
    visitor.Tensor(prefix + names_[k], state.tensors[k], placement);
  }
}

}  // namespace ddprun::trainer
