#include "trainer/compute/recompute.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trainer/compute/device.h"
#include "trainer/compute/precision.h"

namespace ddprun::trainer {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

thread_local bool recomputing = false;

// While it lives, this thread has the random state and precision of the first forward.
class SecondForward {
 public:
  SecondForward(const RandomState& first, const ComputePrecision& precision)
      : random_state_(RandomState::Of(first.device)), precision_(precision) {
    first.Restore();
    recomputing = true;
  }
  ~SecondForward() {
    recomputing = false;
    random_state_.Restore();
  }
  SecondForward(const SecondForward&) = delete;
  SecondForward& operator=(const SecondForward&) = delete;

 private:
  const RandomState random_state_;
  const PrecisionScope precision_;
  const at::AutoGradMode gradients_{true};
};

struct FirstForward : torch::CustomClassHolder {
  FirstForward(const Forward& of, at::TensorList used, c10::Device device)
      : forward(of), parameters(used.vec()), random_state(RandomState::Of(device)) {}

  const Forward forward;
  const std::vector<at::Tensor> parameters;
  const RandomState random_state;
  const ComputePrecision precision = CurrentPrecision();
};

class RecomputeFunction : public torch::autograd::Function<RecomputeFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const c10::intrusive_ptr<FirstForward>& first,
                            const at::Tensor& x,
                            at::TensorList /*parameters*/) {
    context->save_for_backward({x});
    context->saved_data["first"] = at::IValue::make_capsule(first);
    return first->forward(x);
  }

  // Returns the gradients like any layer, so that a reducer's hook sees each parameter's once.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto capsule = context->saved_data["first"].toCapsule();
    const auto& first = static_cast<const FirstForward&>(*capsule);
    const at::Tensor given = context->get_saved_variables()[0];
    const at::Tensor x = given.detach().requires_grad_(given.requires_grad());
    variable_list inputs = {x};
    inputs.insert(inputs.end(), first.parameters.begin(), first.parameters.end());
    variable_list trained;
    for (const at::Tensor& input : inputs) {
      if (input.requires_grad()) trained.push_back(input);
    }
    at::Tensor output;
    {
      const SecondForward scope(first.random_state, first.precision);
      output = first.forward(x);
    }
    const variable_list found =
        torch::autograd::grad({output}, trained, gradients, /*retain_graph=*/std::nullopt,
                              /*create_graph=*/false, /*allow_unused=*/true);
    variable_list result(1);  // no gradient for `first`
    for (auto next = found.begin(); const at::Tensor& input : inputs) {
      result.push_back(input.requires_grad() ? *next++ : at::Tensor());
    }
    return result;
  }
};

}  // namespace

at::Tensor RunWithRecompute(const Forward& forward,
                            const at::Tensor& x,
                            const std::vector<at::Tensor>& parameters) {
  if (!at::GradMode::is_enabled()) return forward(x);
  return RecomputeFunction::apply(
      c10::make_intrusive<FirstForward>(forward, parameters, x.device()), x,
      at::TensorList(parameters));
}

bool IsRecomputing() {
  return recomputing;
}

}  // namespace ddprun::trainer
