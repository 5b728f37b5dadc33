#include "trainer/parallel/used_parameters.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

namespace ddprun::trainer {

std::vector<bool> ReachedBy(std::span<const at::Tensor> outputs,
                            std::span<torch::autograd::Node* const> accumulators) {
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
  reached.reserve(accumulators.size());
  for (torch::autograd::Node* accumulator : accumulators) {
    reached.push_back(seen.contains(accumulator));
  }
  return reached;
}

}  // namespace ddprun::trainer
