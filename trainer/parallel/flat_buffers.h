// Flat tensors that a thread uses again and again.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <functional>
#include <utility>
#include <vector>

namespace ddprun::trainer {

// One thread.
class FlatBuffers {
 public:
  using Make = std::function<at::Tensor(int64_t elements, const at::TensorOptions& options)>;
  static at::Tensor MakePrivate(int64_t elements, const at::TensorOptions& options) {
    return at::empty({elements}, options);
  }
  explicit FlatBuffers(Make make = MakePrivate) : make_(std::move(make)) {}

  // Returns a buffer of at least `elements` elements. Its values are undefined.
  at::Tensor Take(int64_t elements, const at::TensorOptions& options) {
    auto best = free_.end();
    for (auto one = free_.begin(); one != free_.end(); ++one) {
      const bool fits = one->numel() >= elements && one->dtype() == options.dtype();
      if (fits && (best == free_.end() || one->numel() < best->numel())) best = one;
    }
    if (best != free_.end()) {
      at::Tensor buffer = std::move(*best);
      free_.erase(best);
      return buffer;
    }
    free_.clear();  // because they are too small, and memory would only grow
    return make_(elements, options);
  }
  void GiveBack(at::Tensor buffer) { free_.push_back(std::move(buffer)); }

 private:
  const Make make_;
  std::vector<at::Tensor> free_;
};

}  // namespace ddprun::trainer
