// SEAM: how a bucket of gradients becomes their average over the ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;  // a leaf that requires a gradient
};

struct GradientBucket {
  size_t index = 0;  // in the order of sending; 0 is the first
  bool last = false;
  // All gradients of the bucket, one after the other: 1-d, in memory of the group's
  // allocateTensor. On Start this rank's gradients, after Finish the result.
  at::Tensor flat;
  // The same memory as one gradient for each parameter, in the parameters' shapes.
  std::vector<at::Tensor> gradients = {};
  // Which parameters' they are, as all ranks number them: the same however buckets are laid out.
  std::vector<size_t> parameters = {};
};

class CommHook {
 public:
  virtual ~CommHook() = default;

  // Begins to reduce the bucket and returns what has to be called to finish: it waits and leaves
  // the average in bucket.flat. Both are called on the thread that runs backward(), for all buckets
  // in the same order on all ranks; between them backward goes on, or the update of other buckets'
  // parameters (Reducer::WaitForBuckets). Exceptions leave backward(), or that.
  // `bucket` and `group` stay until the finish.
  virtual std::function<void()> Start(GradientBucket& bucket, c10d::Backend& group) = 0;

  // Names what it keeps from step to step. `parameters`: all, as GradientBucket numbers them. Each
  // rank has its own. May be loaded before the first step.
  virtual void NameState(std::span<const NamedParameter> /*parameters*/,
                         StateVisitor& /*visitor*/) {}
};

// Gradients travel as 16-bit numbers: half the bytes, and about three (fp16) or two (bf16)
// significant digits. Sums are rounded once. As PyTorch's fp16_compress_hook and
// bf16_compress_hook.
std::shared_ptr<CommHook> MakeCompressHook(at::ScalarType type);

// Gradients of matrices travel as the product of two thin ones; what that leaves out is added to
// the next step's gradient. PowerSGD of Vogels, Karimireddy and Jaggi (2019); options and defaults
// as PyTorch's PowerSGDState. Keeps a copy of the gradients (the error) in memory, also when
// buckets are laid out anew.
struct PowerSgdOptions {
  int64_t rank = 1;            // columns of the thin matrices
  int64_t start_step = 1000;   // plain averages before: early gradients compress badly
  double min_compression = 2;  // matrices that would shrink by less travel as they are
  uint64_t seed = 0;           // of the first thin matrices; the same on all ranks
};
std::shared_ptr<CommHook> MakePowerSgdHook(const PowerSgdOptions& options);

// Gradients are averaged over all ranks in the first steps, and then only over a subgroup, or not
// at all, where every few steps the parameters are averaged instead (model_averager.h). As
// PyTorch's post_localSGD_hook.
struct PostLocalSgdOptions {
  int64_t start_step = 100;                         // steps with averages over all ranks
  c10::intrusive_ptr<c10d::Backend> subgroup = {};  // none: gradients stay each rank's own
};
std::shared_ptr<CommHook> MakePostLocalSgdHook(const PostLocalSgdOptions& options);

}  // namespace ddprun::trainer
