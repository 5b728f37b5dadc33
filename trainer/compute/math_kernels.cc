#include "trainer/compute/math_kernels.h"

#include <ATen/Functions.h>

namespace ddprun::trainer {

void ChooseMathKernels() {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor one = at::ones({1}, type);
    for (const auto function :
         {at::acos, at::asin, at::atan, at::cos, at::erf, at::erfc, at::erfinv, at::exp, at::expm1,
          at::log, at::log10, at::log1p, at::log2, at::sin, at::sqrt, at::tan, at::tanh}) {
      (void)function(one);
    }
  }
}

}  // namespace ddprun::trainer
