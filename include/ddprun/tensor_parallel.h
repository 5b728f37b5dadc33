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

#include <ddprun/mesh.h>

namespace ddprun {

namespace trainer {
class TensorAxis;
}

// How ranks give and take activations.
struct ParallelLinearOptions {
  bool bias = true;
  // For ColumnParallelLinear: true: every rank gets all outputs; false: only its own.
  bool gather_output = false;
  // For RowParallelLinear: true: x is whole, and so is its gradient, which costs an all-reduce;
  // false: x is this rank's part.
  bool whole_input = false;
};

// y = x A^T + b, A [out, in]. All ranks have equal x [..., in]; each has some rows of A, and
// computes their outputs. If the ranks cannot divide a size equally, the first ranks get one more.
// A size below the number of ranks is refused: the constructor throws Failure.
//
// Initialized like torch.nn.Linear: every rank draws the whole A from torch's default generator, so
// all ranks must use one seed. One thread. All ranks call forward and backward equally often.
class ColumnParallelLinearImpl : public torch::nn::Module {
 public:
  ColumnParallelLinearImpl(const Axis& axis,
                           int64_t in,
                           int64_t out,
                           const ParallelLinearOptions& options = {});
  // Backward all-reduces the gradient of x while it computes the weight's. Throws Failure.
  at::Tensor forward(const at::Tensor& x);

  at::Tensor weight;  // [own share of out, in]
  at::Tensor bias;    // [own share of out]; undefined: none

 private:
  const std::shared_ptr<const trainer::TensorAxis> axis_;  // nullptr: one rank
  const int64_t out_;
  const bool gather_;
};

// y = x A^T + b, A [out, in]. Each rank has some columns of A and their part of x, such as the
// output of ColumnParallelLinear. The ranks sum their results. Each has the whole b; it is added
// once.
class RowParallelLinearImpl : public torch::nn::Module {
 public:
  RowParallelLinearImpl(const Axis& axis,
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
