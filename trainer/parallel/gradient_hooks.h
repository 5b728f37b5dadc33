// Who is told when backward has added up a parameter's gradient.
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

  // `call` runs on autograd's threads, after every gradient of the parameter, until this object
  // ends. REQUIRES: a leaf that requires a gradient.
  void Add(const at::Tensor& parameter, std::function<void()> call);
  // The nodes that add up, in the order of Add().
  std::vector<torch::autograd::Node*> accumulators() const;

 private:
  // A variable holds its accumulator weakly; the hook must live as long as we do.
  std::vector<std::pair<uintptr_t, std::shared_ptr<torch::autograd::Node>>> hooks_;
};

// Of `all` parameters that backward has come to its end without. `otherwise`: what to do but freeze
// them.
Failure MissingGradients(const std::string& where,
                         std::span<const std::string> missing,
                         size_t all,
                         const std::string& otherwise);

}  // namespace ddprun::trainer
