// The loss of a language model whose vocabulary the ranks of the tensor axis divide.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/compute/tensor_axis.h"

namespace ddprun::trainer {

struct VocabularyLossOptions {
  IndexRange own = {};       // the classes whose weights this rank has
  int64_t classes = 0;       // of all ranks
  int64_t largest_part = 0;  // classes of the rank with most
  double smoothing = 0;
  c10::intrusive_ptr<c10d::Backend> group = {};
};

// Returns TensorAxis::LinearCrossEntropy(). Ranks exchange four numbers per row of `hidden`, and
// the row's gradient.
at::Tensor VocabularyLoss(const at::Tensor& hidden,
                          const at::Tensor& weight,
                          const at::Tensor& targets,
                          const VocabularyLossOptions& options);

}  // namespace ddprun::trainer
