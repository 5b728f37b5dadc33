#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>
#include <optional>

#include "trainer/compute/device.h"
#include "trainer/compute/operations.h"
#include "trainer/compute/precision.h"

namespace ddprun::trainer {

namespace {

// The probabilities of longer sequences need too much memory.
constexpr int64_t kLongestComposed = 1024;

at::Tensor MaskedPairs(const AttentionInput& input) {
  if (input.mask.defined()) return input.mask.logical_not();
  if (!input.causal) return {};
  const int64_t length = input.queries.size(2);
  return at::ones({length, length}, input.queries.options().dtype(at::kBool)).triu(1);
}

at::Tensor ComposedAttention(const AttentionInput& input) {
  const double scale = 1 / std::sqrt(static_cast<double>(input.queries.size(-1)));
  const int64_t shared = input.queries.size(1) / input.keys.size(1);  // heads per key
  const at::Tensor keys = shared == 1 ? input.keys : input.keys.repeat_interleave(shared, 1);
  const at::Tensor values = shared == 1 ? input.values : input.values.repeat_interleave(shared, 1);
  at::Tensor scores = at::matmul(input.queries * scale, keys.transpose(-1, -2));
  const at::Tensor hidden = MaskedPairs(input);
  if (hidden.defined()) {
    scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  const at::Tensor probabilities = at::softmax(scores, -1);
  return at::matmul(DropElements(probabilities, input.dropout), values);
}

}  // namespace

at::Tensor ScaledDotProduct(const AttentionInput& input) {
  const bool equal_heads = input.queries.size(1) == input.keys.size(1);
  if (IsForHostKernels(input.queries)) {
    // With dropout, LibTorch's kernel keeps the probabilities and does not draw from
    // HostGenerator().
    const bool fused_is_slow =
        ComputeType() != at::kFloat && equal_heads && input.queries.size(2) <= kLongestComposed;
    if (input.dropout > 0 || fused_is_slow) return ComposedAttention(input);
  }
  const std::optional<at::Tensor> mask =
      input.mask.defined() ? std::optional(input.mask) : std::nullopt;
  return at::scaled_dot_product_attention(input.queries, input.keys, input.values, mask,
                                          input.dropout, input.causal && !mask.has_value(),
                                          /*scale=*/std::nullopt, /*enable_gqa=*/!equal_heads);
}

}  // namespace ddprun::trainer
