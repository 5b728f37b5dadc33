// Matrix products by the engine that is fastest on this processor (matmul_choice.h).
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun::trainer {

enum class MatmulEngine {
  kDefault,  // LibTorch's: MKL on x86
  kOneDnn,   // oneDNN inside LibTorch, asked for fp32 arithmetic
};

// "default", "onednn": the words of training.matmul_engine.
const char* MatmulEngineName(MatmulEngine engine);

// Whether this LibTorch can be asked for oneDNN's fp32 products on this processor. Any thread.
bool HasOneDnn();

// For the whole process; kDefault at the start. Before other threads multiply.
void UseMatmulEngine(MatmulEngine engine);
MatmulEngine CurrentMatmulEngine();

// Who multiplies factors of this type and place, for M K N = `size`.
MatmulEngine EngineFor(at::ScalarType type, at::Device device, int64_t size);

// out = a b, or out += a b: a [M, K], b [K, N] and out [M, N] of one dtype, out contiguous. Small
// float32 products and those of other dtypes go to LibTorch's default, which decides for itself.
// Records no graph. Any thread.
void Multiply(const at::Tensor& a, const at::Tensor& b, at::Tensor& out, bool accumulate = false);

// The same by one engine, whatever the size.
void MultiplyBy(MatmulEngine engine,
                const at::Tensor& a,
                const at::Tensor& b,
                at::Tensor& out,
                bool accumulate = false);

}  // namespace ddprun::trainer
