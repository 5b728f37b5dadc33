// SGD, Adam, AdamW and Adagrad with the numbers of torch.optim, and Lion. Clips by the global
// gradient norm like torch.nn.utils.clip_grad_norm_, and averages parameters like
// torch.optim.swa_utils.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ddprun/device_scalar.h>
#include <ddprun/options.h>
#include <ddprun/state.h>

namespace ddprun {

namespace trainer {
class ParameterAverages;
}

// The kind of optimizer and its numbers, with the defaults of torch.optim.
struct OptimizerOptions {
  OptimizerType kind = OptimizerType::kAdamW;
  std::array<double, 2> betas = {0.9, 0.999};  // Adam, AdamW, Lion
  double eps = 1e-8;                           // Adam, AdamW, Adagrad
  double momentum = 0.0;                       // SGD
  double dampening = 0.0;                      // SGD
  bool nesterov = false;                       // SGD
};

// Parameters of one device and one dtype.
struct ParameterGroup {
  std::vector<at::Tensor> parameters;
  // AdamW and Lion: decoupled; others: added to the gradient, as in torch.optim.
  double weight_decay = 0.0;
  std::vector<std::string> names = {};          // one per parameter; needed for the state
  std::vector<StatePlacement> placements = {};  // one per parameter; empty: all are whole
  double learning_rate_factor = 1.0;            // of the learning rate that Step() gets
};

// Divides parameters into a group with weight decay and one without; leaves out an empty group. A
// parameter has no decay if its name contains one of `no_decay` as a word; case does not count.
//
// Dots, underscores, digits and capital letters separate words: "bn" is a word of "bn1.weight", not
// of "subnet.weight". An entry may be several words in a row: "LayerNorm.weight", "downsample.1".
std::vector<ParameterGroup> GroupByDecay(
    const std::vector<std::pair<std::string, at::Tensor>>& named_parameters,
    const std::vector<std::string>& no_decay,
    double weight_decay);

// One thread at a time. A parameter's first step makes its state (moments, momentum), on its
// device. A parameter without gradient does not change, as in torch.optim.
class Optimizer {
 public:
  explicit Optimizer(std::vector<ParameterGroup> groups);
  virtual ~Optimizer();

  // Does one step with the present gradients, without recording an autograd graph. If the learning
  // rate is on the parameters' device, reads it there as float32, as fused kernels need.
  void Step(const DeviceScalar& learning_rate);
  // Does one step for some of the parameters. One step may be divided into calls with different
  // parameters, in any order.
  void Step(const DeviceScalar& learning_rate, std::span<const at::Tensor> parameters);

  // Keeps an exponential moving average of each parameter: after each step, it moves towards the
  // parameter by 1 - decay of their difference. The parameter after its first step begins it, as in
  // torch.optim.swa_utils.AveragedModel. Call it before the first step. 0 <= decay < 1.
  void KeepAverages(double decay);
  // Exchanges the values of parameters and averages, of all parameters or of some: evaluate between
  // two calls, and do no step. Does nothing for a parameter without average.
  void SwapAverages();
  void SwapAverages(std::span<const at::Tensor> parameters);

  const std::vector<ParameterGroup>& groups() const { return groups_; }

  // Names the state of each parameter with the names of torch.optim's state_dict:
  // "fc.weight.exp_avg"; its average is AverageName(). A checkpoint may be loaded before the first
  // step. REQUIRES: names in the groups.
  void NameState(StateVisitor& visitor);

 protected:
  // Returns the placement of a parameter's part, and of all state with its shape.
  StatePlacement PlacementOf(size_t group, size_t member) const {
    const auto& placements = groups_[group].placements;
    return placements.empty() ? StatePlacement() : placements[member];
  }
  // Names the state of one parameter, with names that begin with `prefix`.
  virtual void NameStateOf(size_t group,
                           size_t member,
                           const std::string& prefix,
                           StateVisitor& visitor) = 0;
  // `members`: indices of the group's parameters to update.
  virtual void StepGroup(size_t group,
                         std::span<const size_t> members,
                         const DeviceScalar& learning_rate) = 0;

  std::vector<ParameterGroup> groups_;

 private:
  struct Place {
    size_t group;
    size_t member;
  };
  std::vector<std::vector<size_t>> MembersOf(std::span<const at::Tensor> parameters) const;
  // Steps the members at the learning rate of their group.
  void StepMembers(size_t group,
                   std::span<const size_t> members,
                   const DeviceScalar& learning_rate);

  std::unordered_map<const c10::TensorImpl*, Place> places_;
  std::vector<std::vector<size_t>> all_;  // by group: all members
  std::unique_ptr<trainer::ParameterAverages> averages_;
};

// Returns the name of a parameter's average in Optimizer::NameState(): "fc.weight.average".
inline std::string AverageName(const std::string& parameter) {
  return parameter + ".average";
}

// Makes the optimizer of options.kind.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                         std::vector<ParameterGroup> groups);

// Scales the tensors in place so that their common norm, now `norm`, is at most max_norm. If the
// norm is not finite, neither are the results, as in torch. Does not wait for a device.
void ClipTo(double max_norm, const DeviceScalar& norm, const std::vector<at::Tensor>& tensors);

// Returns the gradients of the parameters that have one.
std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& parameters);

}  // namespace ddprun
