// Tensor parallelism: linear layers of which each rank computes a part.
//
//   ddprun::ColumnParallelLinear up(axis, 1024, 4096);    // split by outputs
//   ddprun::RowParallelLinear down(axis, 4096, 1024);     // split by inputs
//   const at::Tensor y = down(at::relu(up(x)));           // one all-reduce forward, one backward
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>

#include "trainer/compute/tensor_axis.h"
#include "trainer/parallel/mesh.h"

namespace ddprun::trainer {

// For models: the layers of this axis. REQUIRES: axis.group != nullptr.
std::shared_ptr<const TensorAxis> MakeTensorAxis(const Axis& axis);

}  // namespace ddprun::trainer

namespace ddprun {

struct ParallelLinearOptions {
  bool bias = true;
  // ColumnParallelLinear: whether every rank gets all outputs, and not its own alone.
  bool gather_output = false;
  // RowParallelLinear: whether x is whole, and not this rank's part of it. Its gradient is, too, at
  // the price of an all-reduce.
  bool whole_input = false;
};

// y = x A^T + b, A [out, in], by ranks that have the same x [..., in]: each has rows of A, and
// makes those outputs. Sizes that the ranks cannot share equally give the first ones one more.
// Starts as torch.nn.Linear does: every rank draws the whole from torch's default generator, so all
// must have seeded it alike. One thread; all ranks call forward and backward equally often.
class ColumnParallelLinearImpl : public torch::nn::Module {
 public:
  ColumnParallelLinearImpl(const trainer::Axis& axis,
                           int64_t in,
                           int64_t out,
                           const ParallelLinearOptions& options = {});
  // The gradient of x is all-reduced while that of the weight is computed. Throws Failure.
  at::Tensor forward(const at::Tensor& x);

  at::Tensor weight;  // [own share of out, in]
  at::Tensor bias;    // [own share of out]; undefined: none

 private:
  const std::shared_ptr<const trainer::TensorAxis> axis_;  // nullptr: one rank
  const int64_t out_;
  const bool gather_;
};

// The same by ranks of which each has columns of A and that part of x, as ColumnParallelLinear
// makes it: what they get is summed over all ranks. b is whole, and added once.
class RowParallelLinearImpl : public torch::nn::Module {
 public:
  RowParallelLinearImpl(const trainer::Axis& axis,
                        int64_t in,
                        int64_t out,
                        const ParallelLinearOptions& options = {});
  at::Tensor forward(const at::Tensor& x);

  at::Tensor weight;  // [out, own share of in]
  at::Tensor bias;    // [out]; undefined: none

 private:
  const std::shared_ptr<const trainer::TensorAxis> axis_;
  const c10::intrusive_ptr<c10d::Backend> group_;  // of the axis
  const int64_t in_;
  const bool whole_input_;
};

TORCH_MODULE(ColumnParallelLinear);
TORCH_MODULE(RowParallelLinear);

}  // namespace ddprun
