#include "trainer/compute/precision.h"

#include <ATen/autocast_mode.h>

namespace ddprun::trainer {

namespace {

thread_local ComputePrecision current;

at::ScalarType TypeOf(Precision precision) {
  if (precision == Precision::kFp32) return at::kFloat;
  return precision == Precision::kBf16 ? at::kBFloat16 : at::kHalf;
}

}  // namespace

PrecisionScope::PrecisionScope(Precision precision, double loss_scale)
    : PrecisionScope(ComputePrecision{TypeOf(precision), loss_scale}) {}

PrecisionScope::PrecisionScope(const ComputePrecision& precision) : before_(current) {
  current = precision;
}

PrecisionScope::~PrecisionScope() {
  current = before_;
}

ComputePrecision CurrentPrecision() {
  return current;
}

AutocastScope::AutocastScope(c10::DeviceType device)
    : device_(device), enabled_(current.type != at::kFloat) {
  if (!enabled_) return;
  at::autocast::set_autocast_dtype(device_, current.type);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!enabled_) return;
  // Drops autocast's copies of parameters, because a step changes the parameters.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, false);
}

bool HasBf16Instructions() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace ddprun::trainer
