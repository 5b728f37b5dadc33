// SEAM: how ranks average a bucket of gradients; and averages of parameters instead.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <ddprun/state.h>

namespace ddprun {

// A parameter of the module.
struct NamedParameter {
  std::string name;
  at::Tensor tensor;  // a leaf that requires a gradient
};

// Gradients that are averaged together.
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

// Reduces buckets of gradients. Called by one thread, on all ranks in the same order.
class CommHook {
 public:
  virtual ~CommHook() = default;

  // Begins to reduce the bucket and returns the function that finishes: it waits and leaves the
  // average in bucket.flat. Both run on the thread of backward(), for all buckets in one order on
  // all ranks; between them backward continues, or the update of other buckets' parameters
  // (wait_for_buckets). Their exceptions leave backward() or wait_for_buckets(). `bucket` and
  // `group` stay valid until the finish.
  virtual std::function<void()> Start(GradientBucket& bucket, c10d::Backend& group) = 0;

  // Names the state that the hook keeps from step to step; each rank has its own state, and another
  // number of ranks begins with its mean (StateVisitor::Section). `parameters`: all parameters, in
  // the numbering of GradientBucket. A checkpoint may be loaded before the first step.
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

// Averages the parameters of all ranks every few steps; in between each rank trains alone.
//
// Works as PyTorch's PeriodicModelAverager: with `warmup_steps` 100 and `period` 4, it averages
// after steps 101, 105, 109 and so on. All ranks call the same methods equally often. One thread.
class PeriodicModelAverager {
 public:
  struct Options {
    int64_t period = 4;  // steps, at least 1
    int64_t warmup_steps = 0;
  };
  // `parameters`: dense tensors. `group`: the group of the ranks to average over.
  PeriodicModelAverager(std::vector<at::Tensor> parameters,
                        c10::intrusive_ptr<c10d::Backend> group,
                        const Options& options);

  // Counts a step. Call it after every update of the parameters. It is a collective in steps that
  // average. Throws Failure.
  void AfterStep();
  // Averages now, unless there was no update since the last average. A collective.
  void Average();

  void NameState(StateVisitor& visitor);

  bool warming_up() const { return steps_ < options_.warmup_steps; }
  bool averaged() const { return averaged_; }  // since the last update

 private:
  std::vector<std::vector<at::Tensor>> by_type_;  // parameters
  const c10::intrusive_ptr<c10d::Backend> group_;
  const Options options_;
  int64_t steps_ = 0;
  bool averaged_ = true;
};

}  // namespace ddprun
