// Parts of a network that are faster here than in LibTorch on a CPU. Any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ddprun::trainer {

// Linear layers through Multiply (matmul.h), forward and backward.

enum class WeightLayout {
  kOutIn,  // [out, in], as torch.nn.Linear
  kInOut,  // [in, out], as transformers' Conv1D
};

// x [..., in] -> [..., out]. `bias` [out] may be undefined. The same values as at::linear up to the
// order of sums; inside a PrecisionScope of bfloat16 the result is bfloat16, as with autocast, and
// the bias gradient is summed in float32. Differentiable once. Any thread.
at::Tensor LinearLayer(const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& bias,
                       WeightLayout layout = WeightLayout::kOutIn);

// Attention for the shapes and types where LibTorch's fused kernel is not the fastest.

struct AttentionInput {
  at::Tensor queries;   // [B, H, L, D]
  at::Tensor keys;      // [B, H', L, D]; H' divides H
  at::Tensor values;    // [B, H', L, D]
  at::Tensor mask;      // bool, broadcasts to [B, H, L, L]: true where a key is seen; or undefined
  bool causal = false;  // of an undefined mask
  double dropout = 0;   // of the probabilities
};

// [B, H, L, D]: softmax(q k^T / sqrt(D)) v, as at::scaled_dot_product_attention; every query must
// see a key. The probabilities are kept for backward (B H L L numbers) with dropout, which the
// fused kernel does not have, and in 16 bits, where it is slow, while L is at most 1024. Any
// thread.
at::Tensor ScaledDotProduct(const AttentionInput& input);

// Dropout and GELU, faster than LibTorch's on a CPU. float32 and bfloat16; any thread; elsewhere
// (other dtypes and devices) they are LibTorch's own.

// Zeroes each element with `probability` in [0, 1) and divides the others by 1 - probability. Which
// ones follows from one number of torch's default generator (at::manual_seed); backward draws them
// again instead of keeping a mask.
at::Tensor DropElements(const at::Tensor& x, double probability);

// at::gelu(x, "tanh").
at::Tensor GeluTanh(const at::Tensor& x);

// The loss of a language model's last layer without its scores: for a vocabulary of 50257 they and
// their gradient are the largest tensors of the whole step.

// The mean cross-entropy of the scores hidden weight^T over the targets other than -100; 0 when
// there are none. hidden [N, C], weight [V, C], targets int64 [N]; `smoothing` in [0, 1): the share
// of each target given to all classes alike. Equals
// at::cross_entropy_loss(at::linear(hidden, weight), targets, {}, at::Reduction::Mean, -100,
// smoothing), but the gradients are computed along with the loss, some rows at a time, and the
// scores are dropped.
// Inside a PrecisionScope of bfloat16 the products are bfloat16, softmax and loss float32.
// Differentiable once, backward runs once. A target outside of [0, V): throws c10::IndexError
// on the CPU, gives a loss that is no number elsewhere.
at::Tensor LinearCrossEntropy(const at::Tensor& hidden,
                              const at::Tensor& weight,
                              const at::Tensor& targets,
                              double smoothing = 0);

// Texts of different lengths as one matrix without padding, and back. Whatever treats each token
// by itself then computes nothing for padding; attention gets its rectangle. Any thread.

// The rows of `padded` [height, C] at `places`, int64 [N], ascending and different: [N, C].
// Differentiable once; PadRows is its gradient.
at::Tensor PackRows(const at::Tensor& padded, const at::Tensor& places);

// `packed` [N, C] at those places of a matrix [height, C] that is zero elsewhere. Differentiable
// once; PackRows is its gradient.
at::Tensor PadRows(const at::Tensor& packed, const at::Tensor& places, int64_t height);

}  // namespace ddprun::trainer
