// Attention for the shapes and types where LibTorch's fused kernel is not the fastest.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun::trainer {

struct AttentionInput {
  at::Tensor queries;   // [B, H, L, D]
  at::Tensor keys;      // [B, H', L, D]; H' divides H
  at::Tensor values;    // [B, H', L, D]
  at::Tensor mask;      // bool, broadcasts to [B, H, L, L]: true where a key is seen; or undefined
  bool causal = false;  // of an undefined mask
  double dropout = 0;   // of the probabilities
};

// [B, H, L, D]: softmax(q k^T / sqrt(D)) v, as at::scaled_dot_product_attention; every query must
// see a key. With dropout or in bfloat16 the probabilities are kept for backward (B H L L numbers)
// while L is at most 1024: the fused kernel has no dropout and is slow in bfloat16. Any thread.
at::Tensor ScaledDotProduct(const AttentionInput& input);

}  // namespace ddprun::trainer
