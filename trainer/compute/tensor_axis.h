// Layers of which each rank has a part (tensor parallelism), for models.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/compute/operations.h"

namespace ddprun::trainer {

struct IndexRange {
  int64_t begin = 0;
  int64_t length = 0;
};

// SEAM: the ranks that have parts of the same layers. They have equal inputs and call the same
// methods in the same order, because each is a collective in forward or backward. Results have
// equal bits on all ranks. One thread at a time; throws Failure. Made by
// parallel/tensor_parallel.h.
class TensorAxis {
 public:
  TensorAxis(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  virtual ~TensorAxis() = default;

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  // Returns this rank's part of `whole` indices; the first ranks may have one index more.
  IndexRange OwnRange(int64_t whole) const {
    const int64_t larger = whole % size_;
    return {.begin = rank_ * (whole / size_) + std::min(rank_, larger),
            .length = whole / size_ + (rank_ < larger ? 1 : 0)};
  }

  // Layers split by outputs: returns this rank's outputs of each layer. x is equal on all ranks.
  // The ranks sum the gradient of x while they compute gradients of weights.
  virtual std::vector<at::Tensor> ByOutputs(const at::Tensor& x,
                                            std::span<const LinearWeights> layers,
                                            WeightLayout layout) const = 0;
  // A layer split by inputs: returns the whole output. x is this rank's part; the bias is whole.
  virtual at::Tensor ByInputs(const at::Tensor& x,
                              const LinearWeights& layer,
                              WeightLayout layout) const = 0;
  // Returns the sum of the ranks' parts. Overwrites `part`.
  virtual at::Tensor Sum(const at::Tensor& part) const = 0;
  // Returns the ranks' parts joined along the last dimension, OwnRange(whole) on this rank.
  virtual at::Tensor Gather(const at::Tensor& part, int64_t whole) const = 0;
  // LinearCrossEntropy() of operations.h, with each rank's weights of its classes only. No rank has
  // the scores of all classes.
  virtual at::Tensor LinearCrossEntropy(const at::Tensor& hidden,
                                        const at::Tensor& weight,
                                        int64_t classes,
                                        const at::Tensor& targets,
                                        double smoothing) const = 0;

 private:
  const int64_t rank_;
  const int64_t size_;
};

}  // namespace ddprun::trainer
