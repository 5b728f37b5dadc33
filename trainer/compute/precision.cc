#include "trainer/compute/precision.h"

#include <ATen/autocast_mode.h>

namespace ddprun::trainer {

PrecisionScope::PrecisionScope(Precision precision) : precision_(precision) {
  if (precision_ == Precision::kFp32) return;
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::increment_nesting();
}

PrecisionScope::~PrecisionScope() {
  if (precision_ == Precision::kFp32) return;
  // The copies of parameters that autocast has made go with the scope: a step changes them.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
}

at::ScalarType ComputeType() {
  return at::autocast::is_autocast_enabled(at::kCPU) ? at::autocast::get_autocast_dtype(at::kCPU)
                                                     : at::kFloat;
}

bool HasBf16Instructions() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace ddprun::trainer
