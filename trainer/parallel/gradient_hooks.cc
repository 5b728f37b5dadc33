#include "trainer/parallel/gradient_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "base/check.h"

namespace ddprun::trainer {

GradientHooks::~GradientHooks() {
  for (auto& [key, accumulator] : hooks_) accumulator->del_post_hook(key);
}

void GradientHooks::Add(const at::Tensor& parameter, std::function<void()> call) {
  std::shared_ptr<torch::autograd::Node> accumulator =
      torch::autograd::impl::grad_accumulator(parameter);
  DDPRUN_CHECK(accumulator != nullptr);
  using torch::autograd::variable_list;
  auto hook = std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [call = std::move(call)](const variable_list& outputs, const variable_list& /*inputs*/) {
        call();
        return outputs;
      });
  const uintptr_t key = accumulator->add_post_hook(std::move(hook));
  hooks_.emplace_back(key, std::move(accumulator));
}

std::vector<torch::autograd::Node*> GradientHooks::accumulators() const {
  std::vector<torch::autograd::Node*> nodes;
  for (const auto& [key, accumulator] : hooks_) nodes.push_back(accumulator.get());
  return nodes;
}

}  // namespace ddprun::trainer
