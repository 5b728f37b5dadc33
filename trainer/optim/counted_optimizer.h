// Optimizers that count the steps of each parameter, and keep tensors of its shape.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include <ddprun/optimizer.h>

namespace ddprun::trainer {

class CountedOptimizer : public Optimizer {
 public:
  // `names`: of the tensors of a parameter's state, as in the state_dict of the optimizer in
  // Python.
  CountedOptimizer(std::vector<std::string> names, std::vector<ParameterGroup> groups);

 protected:
  using Tensors = std::vector<at::Tensor>;

  // The parameters of a step that have a gradient, and what belongs to them.
  struct Operands {
    Tensors values;
    Tensors gradients;
    std::vector<Tensors> states;  // by name, by parameter
    Tensors steps;  // float32 scalars on the parameters' device; this step is counted already
    double weight_decay = 0;
  };

  virtual void Update(const Operands& operands, const DeviceScalar& learning_rate) = 0;

 private:
  struct State {
    Tensors tensors;  // by name
    at::Tensor step;  // on the device, so that a recorded step counts, too; fused kernels need it
  };

  // Without `zeros`, the caller writes the tensors completely.
  State NewState(const at::Tensor& parameter, bool zeros) const;
  void StepGroup(size_t group,
                 std::span<const size_t> members,
                 const DeviceScalar& learning_rate) final;
  void NameStateOf(size_t group,
                   size_t member,
                   const std::string& prefix,
                   StateVisitor& visitor) final;

  const std::vector<std::string> names_;
  std::vector<std::vector<State>> states_;  // by group, by parameter
};

}  // namespace ddprun::trainer
