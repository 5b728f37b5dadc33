#include "trainer/parallel/gradient_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

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

std::vector<bool> GradientHooks::ReachedFrom(std::span<const at::Tensor> outputs) const {
  std::unordered_set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.requires_grad()) {
      visit(torch::autograd::impl::gradient_edge(output).function.get());
    }
  }
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
  std::vector<bool> reached;
  for (const auto& [key, node] : hooks_) reached.push_back(seen.contains(node.get()));
  return reached;
}

}  // namespace ddprun::trainer
