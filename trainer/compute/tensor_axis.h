// Layers of which each rank has a part (tensor parallelism), as models see them.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/compute/operations.h"

namespace ddprun::trainer {

struct LinearWeights {
  at::Tensor weight;
  at::Tensor bias;  // undefined: none
};

struct IndexRange {
  int64_t begin = 0;
  int64_t length = 0;
};

// SEAM: the ranks that have parts of the same layers. All have the same inputs and call the same
// methods in the same order; each is a collective, in its forward or its backward. Results have the
// same bits on all of them. One thread at a time; throws Failure. It is made by
// parallel/tensor_parallel.h.
class TensorAxis {
 public:
  TensorAxis(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  virtual ~TensorAxis() = default;

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  // This rank's of `whole` indices; the first ranks have one more where they cannot be equal.
  IndexRange Own(int64_t whole) const {
    const int64_t larger = whole % size_;
    return {.begin = rank_ * (whole / size_) + std::min(rank_, larger),
            .length = whole / size_ + (rank_ < larger ? 1 : 0)};
  }

  // Layers split by outputs: x, alike on all ranks, to this rank's outputs of each of them. The
  // gradient of x is summed over the ranks while those of the weights are computed.
  virtual std::vector<at::Tensor> ByOutputs(const at::Tensor& x,
                                            std::span<const LinearWeights> layers,
                                            WeightLayout layout) const = 0;
  // A layer split by inputs: this rank's part of them to the whole output; the bias is whole.
  virtual at::Tensor ByInputs(const at::Tensor& x,
                              const LinearWeights& layer,
                              WeightLayout layout) const = 0;
  // The sum of what the ranks have. REQUIRES: nobody else needs `part`, which it overwrites.
  virtual at::Tensor Sum(const at::Tensor& part) const = 0;
  // The ranks' parts one after the other along the last dimension, which has Own(whole) here.
  virtual at::Tensor Gather(const at::Tensor& part, int64_t whole) const = 0;
  // LinearCrossEntropy (operations.h) of the classes whose weights the ranks share out, without
  // anybody having the scores of all; `smoothing`: share of each target given to all classes alike.
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
