// Calls functions when backward has accumulated a parameter's gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"

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
  // Returns the nodes that accumulate the gradients, in the order of Add().
  std::vector<torch::autograd::Node*> accumulators() const;

 private:
  // A variable holds its accumulator weakly, so this object keeps it alive for the hook.
  std::vector<std::pair<uintptr_t, std::shared_ptr<torch::autograd::Node>>> hooks_;
};

// Returns the error of a backward that ended without the gradients of `missing`, out of `all`
// parameters. `otherwise`: what users can do besides freezing the missing parameters.
Failure MissingGradients(const std::string& where,
                         std::span<const std::string> missing,
                         size_t all,
                         const std::string& otherwise);

}  // namespace ddprun::trainer
