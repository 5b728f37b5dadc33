// SEAM: how ranks average a bucket of gradients.
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
  // allocateTensor(). At Start() it holds this rank's gradients, after the finish the result.
  at::Tensor flat;
  // Views of `flat`: one gradient for each parameter, in the parameter's shape.
  std::vector<at::Tensor> gradients = {};
  // The numbers of the parameters, equal on all ranks and for every layout of the buckets.
  std::vector<size_t> parameters = {};
};

class CommHook {
 public:
  virtual ~CommHook() = default;

  // Begins to reduce the bucket and returns the function that finishes: it waits and leaves the
  // average in bucket.flat. Both run on the thread of backward(), for all buckets in one order on
  // all ranks; between them backward continues, or the update of other buckets' parameters
  // (Reducer::WaitForBuckets). Their exceptions leave backward() or WaitForBuckets(). `bucket` and
  // `group` stay valid until the finish.
  virtual std::function<void()> Start(GradientBucket& bucket, c10d::Backend& group) = 0;

  // Names the state that the hook keeps from step to step; each rank has its own state.
  // `parameters`: all parameters, in the numbering of GradientBucket. A checkpoint may be loaded
  // before the first step.
  virtual void NameState(std::span<const NamedParameter> /*parameters*/,
                         StateVisitor& /*visitor*/) {}
};

// Returns a hook that reduces gradients as 16-bit numbers: half the bytes, and about three (fp16)
// or two (bf16) significant digits. Sums are rounded once. Like PyTorch's fp16_compress_hook and
// bf16_compress_hook.
std::shared_ptr<CommHook> MakeCompressHook(at::ScalarType type);

// Reduces the gradient of a matrix as the product of two thin matrices, and adds the remaining
// error to the next step's gradient: PowerSGD of Vogels, Karimireddy and Jaggi (2019). Options and
// defaults are those of PyTorch's PowerSGDState. The hook keeps the errors, which are as large as
// the gradients, in memory, also when buckets are laid out again.
struct PowerSgdOptions {
  int64_t rank = 1;            // columns of the thin matrices
  int64_t start_step = 1000;   // plain averages before it, because early gradients compress badly
  double min_compression = 2;  // matrices that would shrink by less are not compressed
  uint64_t seed = 0;           // of the first thin matrices; equal on all ranks
};
std::shared_ptr<CommHook> MakePowerSgdHook(const PowerSgdOptions& options);

// Averages gradients over all ranks in the first steps, and later only over a subgroup or not at
// all. From then on PeriodicModelAverager averages the parameters every few steps. Like PyTorch's
// post_localSGD_hook.
struct PostLocalSgdOptions {
  int64_t start_step = 100;                         // steps with averages over all ranks
  c10::intrusive_ptr<c10d::Backend> subgroup = {};  // nullptr: each rank keeps its gradients
};
std::shared_ptr<CommHook> MakePostLocalSgdHook(const PostLocalSgdOptions& options);

}  // namespace ddprun::trainer
