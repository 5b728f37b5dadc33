#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include <ddprun/optimizer.h>
#include "base/check.h"
#include "trainer/optim/adaptive.h"
#include "trainer/optim/name_words.h"
#include "trainer/optim/parameter_averages.h"
#include "trainer/optim/with_rate.h"

namespace ddprun {

using namespace trainer;  // NOLINT: the internals of this library

namespace {

using Tensors = std::vector<at::Tensor>;

class SgdOptimizer final : public Optimizer {
 public:
  SgdOptimizer(const OptimizerOptions& options, std::vector<ParameterGroup> groups)
      : Optimizer(std::move(groups)), options_(options) {
    for (const ParameterGroup& group : groups_) momentum_.emplace_back(group.parameters.size());
  }

 private:
  // The operands of one call of the fused kernel.
  struct Operands {
    Tensors values;
    Tensors gradients;
    Tensors momentum;  // empty without momentum
  };

  void StepGroup(size_t group,
                 std::span<const size_t> members,
                 const DeviceScalar& learning_rate) override {
    const ParameterGroup& parameters = groups_[group];
    // Divides the parameters, because the kernel's is_first_step holds for a whole call: momentum
    // then starts as the gradient.
    Operands first, later;
    for (const size_t i : members) {
      const at::Tensor& parameter = parameters.parameters[i];
      if (!parameter.grad().defined()) continue;
      at::Tensor& momentum = momentum_[group][i];
      Operands& operands = options_.momentum != 0 && !momentum.defined() ? first : later;
      operands.values.push_back(parameter);
      operands.gradients.push_back(parameter.grad());
      if (options_.momentum == 0) continue;
      if (!momentum.defined()) momentum = at::empty_like(parameter);
      operands.momentum.push_back(momentum);
    }
    StepOperands(first, parameters.weight_decay, learning_rate, /*is_first_step=*/true);
    StepOperands(later, parameters.weight_decay, learning_rate, /*is_first_step=*/false);
  }

  void NameStateOf(size_t group,
                   size_t member,
                   const std::string& prefix,
                   StateVisitor& visitor) override {
    if (options_.momentum == 0) return;
    at::Tensor& momentum = momentum_[group][member];
    int64_t has_momentum = momentum.defined() ? 1 : 0;
    visitor.Number(prefix + "has_momentum", has_momentum);
    if (has_momentum == 0) return momentum.reset();
    if (!momentum.defined()) momentum = at::empty_like(groups_[group].parameters[member]);
    visitor.Tensor(prefix + "momentum_buffer", momentum, PlacementOf(group, member));
  }

  void StepOperands(const Operands& operands,
                    double decay,
                    const DeviceScalar& learning_rate,
                    bool is_first_step) const {
    if (operands.values.empty()) return;
    WithRate(learning_rate, [&](const auto& rate) {
      at::_fused_sgd_(operands.values, operands.gradients, operands.momentum, decay,
                      options_.momentum, rate, options_.dampening, options_.nesterov,
                      /*maximize=*/false, is_first_step);
    });
  }

  const OptimizerOptions options_;
  std::vector<Tensors> momentum_;  // by group, by parameter; undefined before the first step
};

}  // namespace

Optimizer::Optimizer(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    std::vector<size_t>& members = all_.emplace_back();
    for (const at::Tensor& parameter : groups_[group].parameters) {
      places_.insert({parameter.unsafeGetTensorImpl(), {group, members.size()}});
      members.push_back(members.size());
    }
  }
}

Optimizer::~Optimizer() = default;

void Optimizer::Step(const DeviceScalar& learning_rate) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) StepMembers(i, all_[i], learning_rate);
}

void Optimizer::Step(const DeviceScalar& learning_rate, std::span<const at::Tensor> parameters) {
  const at::NoGradGuard no_grad;
  const std::vector<std::vector<size_t>> members = MembersOf(parameters);
  for (size_t i = 0; i < groups_.size(); ++i) StepMembers(i, members[i], learning_rate);
}

std::vector<std::vector<size_t>> Optimizer::MembersOf(
    std::span<const at::Tensor> parameters) const {
  std::vector<std::vector<size_t>> members(groups_.size());
  for (const at::Tensor& parameter : parameters) {
    const auto found = places_.find(parameter.unsafeGetTensorImpl());
    DDPRUN_CHECK(found != places_.end());
    members[found->second.group].push_back(found->second.member);
  }
  return members;
}

void Optimizer::StepMembers(size_t group,
                            std::span<const size_t> members,
                            const DeviceScalar& learning_rate) {
  const double factor = groups_[group].learning_rate_factor;
  StepGroup(group, members, factor == 1 ? learning_rate : learning_rate * factor);
  if (averages_) averages_->Update(group, members);
}

void Optimizer::KeepAverages(double decay) {
  averages_ = std::make_unique<ParameterAverages>(decay, groups_);
}

void Optimizer::SwapAverages() {
  if (!averages_) return;
  for (size_t i = 0; i < groups_.size(); ++i) averages_->Swap(i, all_[i]);
}

void Optimizer::SwapAverages(std::span<const at::Tensor> parameters) {
  if (!averages_) return;
  const std::vector<std::vector<size_t>> members = MembersOf(parameters);
  for (size_t i = 0; i < groups_.size(); ++i) averages_->Swap(i, members[i]);
}

void Optimizer::NameState(StateVisitor& visitor) {
  const at::NoGradGuard no_grad;
  for (size_t group = 0; group < groups_.size(); ++group) {
    const std::vector<std::string>& names = groups_[group].names;
    DDPRUN_CHECK(names.size() == groups_[group].parameters.size());
    for (size_t i = 0; i < names.size(); ++i) {
      NameStateOf(group, i, names[i] + ".", visitor);
      if (averages_) averages_->NameStateOf(group, i, names[i], PlacementOf(group, i), visitor);
    }
  }
}

std::vector<ParameterGroup> GroupByDecay(
    const std::vector<std::pair<std::string, at::Tensor>>& named_parameters,
    const std::vector<std::string>& no_decay,
    double weight_decay) {
  ParameterGroup with{{}, weight_decay};
  ParameterGroup without{{}, 0.0};
  for (const auto& [name, parameter] : named_parameters) {
    ParameterGroup& group = HasAnyWord(name, no_decay) ? without : with;
    group.parameters.push_back(parameter);
    group.names.push_back(name);
  }
  std::vector<ParameterGroup> groups;
  for (ParameterGroup* group : {&with, &without}) {
    if (!group->parameters.empty()) groups.push_back(std::move(*group));
  }
  return groups;
}

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                         std::vector<ParameterGroup> groups) {
  switch (options.kind) {
    case OptimizerType::kAdamW:
    case OptimizerType::kAdam:
      return MakeAdam(options, std::move(groups));
    case OptimizerType::kSgd:
      return std::make_unique<SgdOptimizer>(options, std::move(groups));
    case OptimizerType::kAdagrad:
      return MakeAdagrad(options, std::move(groups));
    case OptimizerType::kLion:
      return MakeLion(options, std::move(groups));
  }
  DDPRUN_CHECK(false);
}

void ClipTo(double max_norm, const DeviceScalar& norm, const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  if (tensors.empty()) return;
  if (norm.on_device().defined()) {
    at::Tensor scale = norm.on_device().to(at::kFloat).add_(1e-6F).reciprocal_();
    // A NaN stays NaN.
    return at::_foreach_mul_(tensors, scale.mul_(max_norm).clamp_max_(1.0));
  }
  // Computes in float and by reciprocal, as torch does max_norm / (total_norm + 1e-6) on a tensor.
  const float reciprocal = 1.0F / (static_cast<float>(static_cast<double>(norm)) + 1e-6F);
  const float scale = reciprocal * static_cast<float>(max_norm);
  // Not "scale < 1", because a NaN norm must reach the gradients, too.
  if (!(scale >= 1.0F)) at::_foreach_mul_(tensors, scale);
}

std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

}  // namespace ddprun
