#include "trainer/compute/matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>

#include <atomic>

#include "base/check.h"
#include "trainer/compute/device.h"

// result = beta result + alpha mat1 mat2. libtorch_cpu 2.11 exports it without a header. It is
// weak, so that a LibTorch without it is only slower. With the default setting of fp32 precision it
// computes in fp32 on every processor, also with AMX.
namespace at::native {
__attribute__((weak)) void mkldnn_matmul(const at::Tensor& mat1,
                                         const at::Tensor& mat2,
                                         const at::Tensor& result,
                                         float beta,
                                         float alpha);
}  // namespace at::native

namespace ddprun::trainer {

namespace {

// The limit of M K N below which MKL is faster, because a call costs less: 200^3 on a Zen 4 core.
constexpr int64_t kSmallProduct = int64_t{1} << 23;

std::atomic<MatmulEngine> current_engine = MatmulEngine::kDefault;

}  // namespace

const char* MatmulEngineName(MatmulEngine engine) {
  return engine == MatmulEngine::kOneDnn ? "onednn" : "default";
}

bool HasOneDnn() {
  // Tries it, because it refuses processors without AVX-512, even for float32.
  static const bool has = [] {
    if (at::native::mkldnn_matmul == nullptr) return false;
    const at::Tensor one = at::ones({1, 1});
    try {
      at::native::mkldnn_matmul(one, one, at::empty({1, 1}), 0.0f, 1.0f);
      return true;
    } catch (const c10::Error&) {
      return false;
    }
  }();
  return has;
}

void UseMatmulEngine(MatmulEngine engine) {
  DDPRUN_CHECK(engine == MatmulEngine::kDefault || HasOneDnn());
  current_engine.store(engine, std::memory_order_relaxed);
}

MatmulEngine CurrentMatmulEngine() {
  return current_engine.load(std::memory_order_relaxed);
}

MatmulEngine EngineFor(at::ScalarType type, at::Device device, int64_t size) {
  const bool fits = type == at::kFloat && device.is_cpu() && size >= kSmallProduct;
  return fits ? CurrentMatmulEngine() : MatmulEngine::kDefault;
}

void Multiply(const at::Tensor& a, const at::Tensor& b, at::Tensor& out, bool accumulate) {
  const int64_t size = a.size(0) * a.size(1) * b.size(1);
  MultiplyBy(EngineFor(a.scalar_type(), a.device(), size), a, b, out, accumulate);
}

at::ScalarType TypeOfProducts(const at::Tensor& factor, at::ScalarType wanted) {
  const at::ScalarType own = factor.scalar_type();
  const bool widens = factor.is_cuda() && at::isReducedFloatingType(own) && wanted == at::kFloat;
  return widens ? wanted : own;
}

at::Tensor AlignRows(const at::Tensor& matrix) {
  constexpr int64_t kBytes = 16;
  const int64_t bytes = matrix.size(1) * static_cast<int64_t>(matrix.element_size());
  if (!matrix.is_cuda() || bytes % kBytes == 0) return matrix;
  return MatrixFor(matrix, matrix.size(0), matrix.size(1)).copy_(matrix);
}

at::Tensor MatrixFor(const at::Tensor& factor,
                     int64_t rows,
                     int64_t columns,
                     std::optional<at::ScalarType> type) {
  constexpr int64_t kNumbers = 64;
  const auto options = factor.options().dtype(type.value_or(factor.scalar_type()));
  if (IsForHostKernels(factor)) return at::empty({rows, columns}, options);
  const int64_t width = (columns + kNumbers - 1) / kNumbers * kNumbers;
  return at::empty({rows, width}, options).narrow(1, 0, columns);
}

void MultiplyBy(MatmulEngine engine,
                const at::Tensor& a,
                const at::Tensor& b,
                at::Tensor& out,
                bool accumulate) {
  const at::ScalarType type = out.scalar_type();
  if (a.scalar_type() != type) {
    if (accumulate) {
      at::addmm_out(out, out, a, b, type);
    } else {
      at::mm_out(out, a, b, type);
    }
  } else if (engine == MatmulEngine::kOneDnn) {
    at::native::mkldnn_matmul(a, b, out, accumulate ? 1.0f : 0.0f, 1.0f);
  } else if (accumulate) {
    at::addmm_out(out, out, a, b);
  } else {
    at::mm_out(out, a, b);
  }
}

}  // namespace ddprun::trainer
