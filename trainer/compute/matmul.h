// Matrix products by the fastest engine on this processor (matmul_choice.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace ddprun::trainer {

enum class MatmulEngine {
  kDefault,  // LibTorch's own: MKL on x86
  kOneDnn,   // oneDNN inside LibTorch, in fp32 arithmetic
};

// Returns the word of training.matmul_engine: "default", "onednn".
const char* MatmulEngineName(MatmulEngine engine);

// Returns whether this LibTorch has oneDNN's fp32 products on this processor. Any thread.
bool HasOneDnn();

// Sets the engine of the process, at first kDefault. Called before other threads multiply.
void UseMatmulEngine(MatmulEngine engine);
MatmulEngine CurrentMatmulEngine();

// Returns the engine for factors of this type and device, with `size` = M K N.
MatmulEngine EngineFor(at::ScalarType type, at::Device device, int64_t size);

// out = a b, or out += a b: a [M, K], b [K, N] and out [M, N] have one dtype, but out may have
// TypeOfProducts(a, out's dtype). out is contiguous or made by MatrixFor().
// Small float32 products and other dtypes use LibTorch's default. Records no graph. Any thread.
void Multiply(const at::Tensor& a, const at::Tensor& b, at::Tensor& out, bool accumulate = false);

// Returns memory for a result [rows, columns] of Multiply() with numbers of `type`, or like those
// of `factor`. On a device each row begins at a multiple of 64 numbers: tensor cores need 16 bytes,
// and products with rows of an odd size would take several times as long.
at::Tensor MatrixFor(const at::Tensor& factor,
                     int64_t rows,
                     int64_t columns,
                     std::optional<at::ScalarType> type = std::nullopt);

// Returns the matrix, or on CUDA, if its rows do not begin at multiples of 16 bytes, a copy of it
// in MatrixFor().
at::Tensor AlignRows(const at::Tensor& matrix);

// Returns the dtype in which Multiply() is to write products of `factor` that are needed in the
// dtype `wanted`. On CUDA 16-bit numbers have products in float32 without another kernel.
at::ScalarType TypeOfProducts(const at::Tensor& factor, at::ScalarType wanted);

// Multiply() with the given engine for any size.
void MultiplyBy(MatmulEngine engine,
                const at::Tensor& a,
                const at::Tensor& b,
                at::Tensor& out,
                bool accumulate = false);

}  // namespace ddprun::trainer
