// The loss of a language model whose vocabulary the ranks of the tensor axis share out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/compute/tensor_axis.h"

namespace ddprun::trainer {

struct VocabularyLossOptions {
  IndexRange own = {};       // the classes whose weights this rank has
  int64_t classes = 0;       // of all ranks
  int64_t largest_part = 0;  // of a rank
  double smoothing = 0;
  c10::intrusive_ptr<c10d::Backend> group = {};
};

// TensorAxis::LinearCrossEntropy. Per row of `hidden` four numbers travel, and its gradient.
at::Tensor VocabularyLoss(const at::Tensor& hidden,
                          const at::Tensor& weight,
                          const at::Tensor& targets,
                          const VocabularyLossOptions& options);

}  // namespace ddprun::trainer
