#include "trainer/optim/parameter_averages.h"

#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <cstdint>

namespace ddprun::trainer {

ParameterAverages::ParameterAverages(double decay, const std::vector<ParameterGroup>& groups)
    : decay_(decay) {
  for (const ParameterGroup& group : groups) {
    parameters_.push_back(group.parameters);
    averages_.emplace_back(group.parameters.size());
  }
}

void ParameterAverages::Update(size_t group, std::span<const size_t> members) {
  std::vector<at::Tensor> averages;
  std::vector<at::Tensor> values;
  for (const size_t i : members) {
    const at::Tensor& parameter = parameters_[group][i];
    at::Tensor& average = averages_[group][i];
    if (average.defined()) {
      averages.push_back(average);
      values.push_back(parameter.detach());
    } else {
      average = parameter.detach().clone();
    }
  }
  if (!averages.empty()) at::_foreach_lerp_(averages, values, 1 - decay_);
}

void ParameterAverages::Swap(size_t group, std::span<const size_t> members) {
  for (const size_t i : members) {
    at::Tensor& average = averages_[group][i];
    if (!average.defined()) continue;
    const at::Tensor parameter = parameters_[group][i].detach();
    const at::Tensor value = parameter.clone();
    parameter.copy_(average);
    average.copy_(value);
  }
}

void ParameterAverages::NameStateOf(size_t group,
                                    size_t member,
                                    const std::string& parameter,
                                    const StatePlacement& placement,
                                    StateVisitor& visitor) {
  at::Tensor& average = averages_[group][member];
  int64_t has_average = average.defined() ? 1 : 0;
  visitor.Number(parameter + ".has_average", has_average);
  if (has_average == 0) return average.reset();
  if (!average.defined()) {
    const at::Tensor like = parameters_[group][member].detach();
    // A part's state begins with zeros, because its padding is not written.
    average = placement.empty() ? at::empty_like(like) : at::zeros_like(like);
  }
  visitor.Tensor(AverageName(parameter), average, placement);
}

}  // namespace ddprun::trainer
