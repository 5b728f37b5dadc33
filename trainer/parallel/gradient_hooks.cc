#include "trainer/parallel/gradient_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "base/check.h"

namespace ddprun::trainer {

namespace {

class PostHook : public torch::autograd::FunctionPostHook {
 public:
  explicit PostHook(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  const std::function<void()> call_;
};

}  // namespace

GradientHooks::~GradientHooks() {
  for (auto& [key, accumulator] : hooks_) accumulator->del_post_hook(key);
}

void GradientHooks::Add(const at::Tensor& parameter, std::function<void()> call) {
  std::shared_ptr<torch::autograd::Node> accumulator =
      torch::autograd::impl::grad_accumulator(parameter);
  DDPRUN_CHECK(accumulator != nullptr);
  const uintptr_t key = accumulator->add_post_hook(std::make_unique<PostHook>(std::move(call)));
  hooks_.emplace_back(key, std::move(accumulator));
}

std::vector<torch::autograd::Node*> GradientHooks::accumulators() const {
  std::vector<torch::autograd::Node*> nodes;
  for (const auto& [key, accumulator] : hooks_) nodes.push_back(accumulator.get());
  return nodes;
}

}  // namespace ddprun::trainer
