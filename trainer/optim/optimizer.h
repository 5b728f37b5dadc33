// SGD, Adam and AdamW over ATen's fused kernels, with the numbers of torch.optim; clipping by the
// global gradient norm (compute/norm.h), as torch.nn.utils.clip_grad_norm_.
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

#include "trainer/compute/device.h"
#include "trainer/config/training_config.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

struct OptimizerOptions {
  OptimizerType kind = OptimizerType::kAdamW;
  std::array<double, 2> betas = {0.9, 0.999};  // Adam, AdamW
  double eps = 1e-8;                           // Adam, AdamW
  double momentum = 0.0;                       // SGD
  double dampening = 0.0;                      // SGD
  bool nesterov = false;                       // SGD
};

// Parameters of one device and one dtype.
struct ParameterGroup {
  std::vector<at::Tensor> parameters;
  // AdamW: decoupled; Adam and SGD: added to the gradient, as in torch.optim.
  double weight_decay = 0.0;
  std::vector<std::string> names = {};          // as many as parameters, where the state is wanted
  std::vector<StatePlacement> placements = {};  // as many, or none: all are whole
};

// Parameters whose name has one of `no_decay` among its words, in letters of either case, go into a
// group without weight decay, the others into one with it; an empty group is left out. Words are
// what dots, underscores, digits and capital letters part: "bn" is one of "bn1.weight", not of
// "subnet.weight". Several stand for a row of them: "LayerNorm.weight", "downsample.1".
std::vector<ParameterGroup> GroupByDecay(
    const std::vector<std::pair<std::string, at::Tensor>>& named_parameters,
    const std::vector<std::string>& no_decay,
    double weight_decay);

// One thread at a time. State (moments, momentum) is made at a parameter's first step, on its
// device. A parameter without gradient is left alone, as torch.optim does.
class Optimizer {
 public:
  explicit Optimizer(std::vector<ParameterGroup> groups);
  virtual ~Optimizer() = default;

  // One step with the gradients as they are. No autograd graph is recorded. A learning rate that is
  // on the parameters' device is read there, as float32: fused kernels take no other.
  void Step(const DeviceScalar& learning_rate);
  // The same for some of the parameters: step by step, parts of all may be given in any order.
  void Step(const DeviceScalar& learning_rate, std::span<const at::Tensor> parameters);

  const std::vector<ParameterGroup>& groups() const { return groups_; }

  // Names what it has per parameter, as torch.optim's state_dict calls it: "fc.weight.exp_avg". May
  // be loaded before the first step. REQUIRES: names in the groups.
  void NameState(StateVisitor& visitor);

 protected:
  // Where a parameter's part, and all that has its shape, belongs.
  StatePlacement PlacementOf(size_t group, size_t member) const {
    const auto& placements = groups_[group].placements;
    return placements.empty() ? StatePlacement() : placements[member];
  }
  // What of one parameter is kept under names that begin so.
  virtual void NameStateOf(size_t group,
                           size_t member,
                           const std::string& prefix,
                           StateVisitor& visitor) = 0;
  // `members`: indices of the group's parameters, those to update.
  virtual void StepGroup(size_t group,
                         std::span<const size_t> members,
                         const DeviceScalar& learning_rate) = 0;

  std::vector<ParameterGroup> groups_;

 private:
  struct Place {
    size_t group;
    size_t member;
  };
  std::unordered_map<const c10::TensorImpl*, Place> places_;
  std::vector<std::vector<size_t>> all_;  // by group: all members
};

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                         std::vector<ParameterGroup> groups);

// Scales the tensors, whose norm together is `norm`, in place so that it is at most max_norm. A
// norm that is not finite makes them so too, as in torch. A device is not waited for.
void ClipTo(double max_norm, const DeviceScalar& norm, const std::vector<at::Tensor>& tensors);

// The gradients of the parameters that have one.
std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& parameters);

}  // namespace ddprun::trainer
