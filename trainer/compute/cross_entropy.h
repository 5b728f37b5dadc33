// The loss of a language model's last layer without its scores: for a vocabulary of 50257 they and
// their gradient are the largest tensors of the whole step.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun::trainer {

// The mean cross-entropy of the scores hidden weight^T over the targets other than -100; 0 when
// there are none. hidden [N, C], weight [V, C], targets int64 [N]. Equals
// at::cross_entropy_loss(at::linear(hidden, weight), targets), but the gradients are computed along
// with the loss, some rows at a time, and the scores are dropped.
// Inside a PrecisionScope of bfloat16 the products are bfloat16, softmax and loss float32.
// Differentiable once, backward runs once. Throws c10::IndexError for a target outside [0, V).
at::Tensor LinearCrossEntropy(const at::Tensor& hidden,
                              const at::Tensor& weight,
                              const at::Tensor& targets);

}  // namespace ddprun::trainer
