// Exponential moving averages of parameters (optimizer.ema_decay).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <ddprun/optimizer.h>

namespace ddprun::trainer {

// One thread at a time. `members`: indices of a group's parameters.
class ParameterAverages {
 public:
  ParameterAverages(double decay, const std::vector<ParameterGroup>& groups);

  // Call it after each step of the parameters. Works in a recorded step of a device from the second
  // call on.
  void Update(size_t group, std::span<const size_t> members);
  // Exchanges the values of parameters and averages.
  void Swap(size_t group, std::span<const size_t> members);
  // Names the average, with a name that begins with the parameter's.
  void NameStateOf(size_t group,
                   size_t member,
                   const std::string& parameter,
                   const StatePlacement& placement,
                   StateVisitor& visitor);

 private:
  const double decay_;
  // Both by group, by parameter. An average is undefined before the first step.
  std::vector<std::vector<at::Tensor>> parameters_;
  std::vector<std::vector<at::Tensor>> averages_;
};

}  // namespace ddprun::trainer
