// Parts of a network that are faster on a CPU than LibTorch's. Any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace ddprun::trainer {

// Linear layers through Multiply (matmul.h), forward and backward.

struct LinearWeights {
  at::Tensor weight;
  at::Tensor bias;  // undefined means none
};

enum class WeightLayout {
  kOutIn,  // [out, in]: torch.nn.Linear
  kInOut,  // [in, out]: transformers' Conv1D
};

// x [..., in] -> [..., out], as at::linear up to the order of sums. `bias` [out] may be undefined.
// In a PrecisionScope of bfloat16 the result is bfloat16, as with autocast, and the bias gradient
// is summed in float32. Differentiable once.
at::Tensor LinearLayer(const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& bias,
                       WeightLayout layout = WeightLayout::kOutIn);

// Several layers of one input, with the layout kOutIn, as one product: on CUDA this is faster in 16
// bits. All have a bias or none has.
bool IsFasterAsOneProduct(const at::Tensor& x, std::span<const LinearWeights> layers);
std::vector<at::Tensor> LinearLayers(const at::Tensor& x, std::span<const LinearWeights> layers);

// Attention for the shapes and types where LibTorch's fused kernel is not the fastest.

struct AttentionInput {
  at::Tensor queries;   // [B, H, L, D]
  at::Tensor keys;      // [B, H', L, D]; H' divides H
  at::Tensor values;    // [B, H', L, D]
  at::Tensor mask;      // undefined, or bool, broadcasts to [B, H, L, L]: true means key is seen;
                        // on CUDA also numbers of the queries' type, added to the scores
  bool causal = false;  // only if `mask` is undefined
  double dropout = 0;   // of the probabilities
};

// Returns softmax(q k^T / sqrt(D)) v [B, H, L, D], as at::scaled_dot_product_attention; every query
// must see a key. Keeps the probabilities for backward (B H L L numbers) with dropout, which the
// fused kernel lacks, and in 16 bits with L <= 1024, where the fused kernel is slow.
at::Tensor ScaledDotProduct(const AttentionInput& input);

// Dropout and GELU. Faster than LibTorch's for float32 and bfloat16 on a CPU; otherwise LibTorch's.

// Sets each element to zero with `probability` in [0, 1) and divides the others by 1 - probability.
// One number of HostGenerator() decides which; backward draws them again and keeps no mask.
at::Tensor DropElements(const at::Tensor& x, double probability);

// at::gelu(x, "tanh").
at::Tensor GeluTanh(const at::Tensor& x);

// A residual and its norm. With kernels of ddprun's own for the device and the type of products
// (device_kernels.h), each function is one kernel, as are its gradients; differentiable once then.

struct NormLayer {
  at::Tensor weight;  // [C]
  at::Tensor bias;    // [C]; undefined: none
  double epsilon = 0;
  bool centers = true;  // LayerNorm; false: RMSNorm, without a bias
};

struct ResidualAndNorm {
  at::Tensor residual;
  at::Tensor normed;  // maybe in the type of products, because linear layers take it
};

// Returns x + addend and its norm. x and addend [..., C]; `addend` undefined: none, and the
// residual is x.
ResidualAndNorm NormOfSum(const at::Tensor& x, const at::Tensor& addend, const NormLayer& layer);

// Returns norm(x + addend), or norm(x), as the residual and, if it is `for_products`, for linear
// layers.
ResidualAndNorm NormedSum(const at::Tensor& x,
                          const at::Tensor& addend,
                          const NormLayer& layer,
                          bool for_products);

// The loss of a language model's last layer without all scores at once: for a vocabulary of 50257
// the scores and their gradient are the largest tensors of a step.

// Returns how many bytes of scores, in the type of products, are computed at once.
int64_t ScorePieceBytes(const at::Tensor& hidden);

// Returns the mean cross-entropy of the scores hidden weight^T over targets other than -100; 0 if
// there are none. hidden [N, C], weight [V, C], targets int64 [N]. `smoothing` in [0, 1) is
// label_smoothing of at::cross_entropy_loss.
//
// Computes the gradients together with the loss, some rows at a time, and drops the scores. In a
// PrecisionScope of bfloat16 products are bfloat16, softmax and loss float32. Differentiable once,
// backward runs once. For a target outside of [0, V) it throws c10::IndexError on the CPU; on a
// device the loss is NaN.
at::Tensor LinearCrossEntropy(const at::Tensor& hidden,
                              const at::Tensor& weight,
                              const at::Tensor& targets,
                              double smoothing = 0);

// Texts of different lengths as one matrix without padding, and back. Layers that treat tokens
// separately then compute nothing for padding; attention gets the padded form.

// Returns the rows [N, C] of `padded` [height, C] at `places`, int64 [N], ascending and different.
// Differentiable once; PadRows() is its gradient.
at::Tensor PackRows(const at::Tensor& padded, const at::Tensor& places);

// Returns a matrix [height, C] with the rows of `packed` [N, C] at `places` and zeros elsewhere.
// Differentiable once; PackRows() is its gradient.
at::Tensor PadRows(const at::Tensor& packed, const at::Tensor& places, int64_t height);

}  // namespace ddprun::trainer
