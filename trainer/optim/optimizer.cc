#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include <ddprun/optimizer.h>
#include "base/check.h"
#include "base/text.h"
#include "trainer/optim/one_state.h"
#include "trainer/optim/with_rate.h"

namespace ddprun {

using namespace trainer;  // NOLINT: the internals of this library

namespace {

using Tensors = std::vector<at::Tensor>;

class AdamOptimizer final : public Optimizer {
 public:
  AdamOptimizer(const OptimizerOptions& options, std::vector<ParameterGroup> groups)
      : Optimizer(std::move(groups)), options_(options) {
    for (const ParameterGroup& group : groups_) states_.emplace_back(group.parameters.size());
  }

 private:
  struct State {
    at::Tensor first_moment;
    at::Tensor second_moment;
    at::Tensor step;  // float32 scalar on the parameter's device, as the fused kernels need
  };

  void StepGroup(size_t group,
                 std::span<const size_t> members,
                 const DeviceScalar& learning_rate) override {
    const ParameterGroup& parameters = groups_[group];
    Tensors values, gradients, first, second, steps;
    for (const size_t i : members) {
      const at::Tensor& parameter = parameters.parameters[i];
      if (!parameter.grad().defined()) continue;
      State& state = states_[group][i];
      if (!state.step.defined()) state = NewState(parameter);
      values.push_back(parameter);
      gradients.push_back(parameter.grad());
      first.push_back(state.first_moment);
      second.push_back(state.second_moment);
      steps.push_back(state.step);
    }
    if (values.empty()) return;
    at::_foreach_add_(steps, 1);
    const double beta1 = options_.betas[0];
    const double beta2 = options_.betas[1];
    const double decay = parameters.weight_decay;
    const double eps = options_.eps;
    WithRate(learning_rate, [&](const auto& rate) {
      if (options_.kind == OptimizerType::kAdamW) {
        at::_fused_adamw_(values, gradients, first, second,
                          /*max_exp_avg_sqs=*/{}, steps, rate, beta1, beta2, decay, eps,
                          /*amsgrad=*/false,
                          /*maximize=*/false);
      } else {
        at::_fused_adam_(values, gradients, first, second,
                         /*max_exp_avg_sqs=*/{}, steps, rate, beta1, beta2, decay, eps,
                         /*amsgrad=*/false,
                         /*maximize=*/false);
      }
    });
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
    const StatePlacement placement = PlacementOf(group, member);
    if (!state.step.defined()) {
      // A whole parameter's state is written completely. A part's state begins with zeros, because
      // its padding is not written.
      const at::Tensor& parameter = groups_[group].parameters[member];
      state = placement.empty() ? State{at::empty_like(parameter), at::empty_like(parameter),
                                        at::zeros({}, parameter.options().dtype(at::kFloat))}
                                : NewState(parameter);
    }
    state.step.fill_(steps);
    visitor.Tensor(prefix + "exp_avg", state.first_moment, placement);
    visitor.Tensor(prefix + "exp_avg_sq", state.second_moment, placement);
  }

  static State NewState(const at::Tensor& parameter) {
    return {at::zeros_like(parameter), at::zeros_like(parameter),
            at::zeros({}, parameter.options().dtype(at::kFloat))};
  }

  const OptimizerOptions options_;
  std::vector<std::vector<State>> states_;  // by group, by parameter
};

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

// The words of a name without separators: layer, 1, 0, bn, 1, weight for "layer1.0.bn1.weight", and
// layer, norm for "LayerNorm".
struct WordsOfName {
  explicit WordsOfName(std::string_view name) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
    char last = '.';
    for (const char letter : name) {
      const bool separator = letter == '.' || letter == '_';
      if (!separator) {
        borders.push_back(last == '.' || last == '_' || is_digit(letter) != is_digit(last) ||
                          (is_upper(letter) && !is_upper(last)));
        text += letter;
      }
      last = letter;
    }
    borders.push_back(true);
    text = ToAsciiLower(text);
  }

  bool Contain(const std::string& wanted) const {
    for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
      if (!wanted.empty() && borders[at] && borders[at + wanted.size()]) return true;
    }
    return false;
  }

  std::string text;
  std::vector<bool> borders;  // whether a word begins, or the last one ends, at this letter
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

void Optimizer::Step(const DeviceScalar& learning_rate) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) StepGroup(i, all_[i], learning_rate);
}

void Optimizer::Step(const DeviceScalar& learning_rate, std::span<const at::Tensor> parameters) {
  const at::NoGradGuard no_grad;
  std::vector<std::vector<size_t>> members(groups_.size());
  for (const at::Tensor& parameter : parameters) {
    const auto found = places_.find(parameter.unsafeGetTensorImpl());
    DDPRUN_CHECK(found != places_.end());
    members[found->second.group].push_back(found->second.member);
  }
  for (size_t i = 0; i < groups_.size(); ++i) StepGroup(i, members[i], learning_rate);
}

void Optimizer::NameState(StateVisitor& visitor) {
  const at::NoGradGuard no_grad;
  for (size_t group = 0; group < groups_.size(); ++group) {
    const std::vector<std::string>& names = groups_[group].names;
    DDPRUN_CHECK(names.size() == groups_[group].parameters.size());
    for (size_t i = 0; i < names.size(); ++i) NameStateOf(group, i, names[i] + ".", visitor);
  }
}

std::vector<ParameterGroup> GroupByDecay(
    const std::vector<std::pair<std::string, at::Tensor>>& named_parameters,
    const std::vector<std::string>& no_decay,
    double weight_decay) {
  ParameterGroup with{{}, weight_decay};
  ParameterGroup without{{}, 0.0};
  for (const auto& [name, parameter] : named_parameters) {
    const WordsOfName words(name);
    const bool exempt = std::ranges::any_of(
        no_decay, [&](const std::string& some) { return words.Contain(WordsOfName(some).text); });
    ParameterGroup& group = exempt ? without : with;
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
      return std::make_unique<AdamOptimizer>(options, std::move(groups));
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
