// SEAM: how a bucket of gradients becomes their average over the ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace ddprun::trainer {

struct GradientBucket {
  size_t index = 0;  // in the order of sending; 0 is the first
  bool last = false;
  // All gradients of the bucket, one after the other: 1-d, in memory of the group's
  // allocateTensor. On Start this rank's gradients, after Finish the result.
  at::Tensor flat;
};

class CommHook {
 public:
  virtual ~CommHook() = default;

  // Begins to reduce the bucket and returns what has to be called to finish: it waits and leaves
  // the average in bucket.flat. Both are called on the thread that runs backward(), for all buckets
  // in the same order on all ranks; between them backward goes on. Exceptions leave backward().
  // `bucket` and `group` stay until the finish.
  virtual std::function<void()> Start(GradientBucket& bucket, c10d::Backend& group) = 0;
};

// Gradients travel as 16-bit numbers: half the bytes, and about three (fp16) or two (bf16)
// significant digits. Sums are rounded once. As PyTorch's fp16_compress_hook and
// bf16_compress_hook.
std::shared_ptr<CommHook> MakeCompressHook(at::ScalarType type);

}  // namespace ddprun::trainer
