// Calls functions when backward has accumulated a parameter's gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace ddprun::trainer {

class GradientHooks {
 public:
  GradientHooks() = default;
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // Calls `call` on autograd's threads after every gradient of the parameter, until this object is
  // destroyed. REQUIRES: a leaf that requires a gradient.
  void Add(const at::Tensor& parameter, std::function<void()> call);
  // Returns, for each parameter in the order of Add(), whether backward from `outputs` gives it a
  // gradient. Walks the autograd graph once.
  std::vector<bool> ReachedFrom(std::span<const at::Tensor> outputs) const;

 private:
  // A variable holds its accumulator weakly, so this object keeps it alive for the hook.
  std::vector<std::pair<uintptr_t, std::shared_ptr<torch::autograd::Node>>> hooks_;
};

}  // namespace ddprun::trainer
