// cuBLAS's products: each counts as one launch, and one that reads or writes a matrix of 16-bit
// numbers whose rows do not begin at multiples of 16 bytes says so, because tensor cores do not
// take such rows.
#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstdint>
#include <string>

namespace standin {
void Log(const std::string& name);
}

namespace {

struct Matrix {
  const char* name;
  const void* data;
  cudaDataType type;
  int64_t stride;  // numbers from a row (column) to the next
};

bool IsUnaligned(const Matrix& matrix) {
  if (matrix.type != CUDA_R_16F && matrix.type != CUDA_R_16BF) return false;
  return reinterpret_cast<uintptr_t>(matrix.data) % 16 != 0 || matrix.stride * 2 % 16 != 0;
}

cublasStatus_t Multiply(const char* function, std::initializer_list<Matrix> matrices) {
  standin::Log(function);
  for (const Matrix& matrix : matrices) {
    if (IsUnaligned(matrix)) {
      standin::Log(std::string("unaligned ") + matrix.name + " of " + function + ", stride " +
                   std::to_string(matrix.stride));
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

struct Layout {
  cudaDataType type;
  int64_t stride;
};

Matrix Of(const char* name, const void* data, cublasLtMatrixLayout_t layout) {
  const auto* const known = reinterpret_cast<const Layout*>(layout);
  return {name, data, known->type, known->stride};
}

}  // namespace

extern "C" {

#ifdef STANDIN_LT
cublasStatus_t cublasLtMatrixLayoutCreate(
    cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t, uint64_t, int64_t stride) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, stride});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t,
                              cublasLtMatmulDesc_t,
                              const void*,
                              const void* a,
                              cublasLtMatrixLayout_t of_a,
                              const void* b,
                              cublasLtMatrixLayout_t of_b,
                              const void*,
                              const void*,
                              cublasLtMatrixLayout_t,
                              void* d,
                              cublasLtMatrixLayout_t of_d,
                              const cublasLtMatmulAlgo_t*,
                              void*,
                              size_t,
                              cudaStream_t) {
  return Multiply("cublasLtMatmul", {Of("A", a, of_a), Of("B", b, of_b), Of("D", d, of_d)});
}
#else
cublasStatus_t cublasGemmEx(cublasHandle_t,
                            cublasOperation_t,
                            cublasOperation_t,
                            int,
                            int,
                            int,
                            const void*,
                            const void* a,
                            cudaDataType type_of_a,
                            int stride_of_a,
                            const void* b,
                            cudaDataType type_of_b,
                            int stride_of_b,
                            const void*,
                            void* c,
                            cudaDataType type_of_c,
                            int stride_of_c,
                            cublasComputeType_t,
                            cublasGemmAlgo_t) {
  return Multiply("cublasGemmEx", {{"A", a, type_of_a, stride_of_a},
                                   {"B", b, type_of_b, stride_of_b},
                                   {"C", c, type_of_c, stride_of_c}});
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t,
                                          cublasOperation_t,
                                          cublasOperation_t,
                                          int,
                                          int,
                                          int,
                                          const void*,
                                          const void* a,
                                          cudaDataType type_of_a,
                                          int stride_of_a,
                                          long long int,
                                          const void* b,
                                          cudaDataType type_of_b,
                                          int stride_of_b,
                                          long long int,
                                          const void*,
                                          void* c,
                                          cudaDataType type_of_c,
                                          int stride_of_c,
                                          long long int,
                                          int,
                                          cublasComputeType_t,
                                          cublasGemmAlgo_t) {
  return Multiply("cublasGemmStridedBatchedEx", {{"A", a, type_of_a, stride_of_a},
                                                 {"B", b, type_of_b, stride_of_b},
                                                 {"C", c, type_of_c, stride_of_c}});
}
#endif

}  // extern "C"
