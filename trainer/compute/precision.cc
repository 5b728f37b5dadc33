#include "trainer/compute/precision.h"

#include <ATen/autocast_mode.h>

namespace ddprun::trainer {

namespace {

thread_local at::ScalarType compute_type = at::kFloat;

}  // namespace

PrecisionScope::PrecisionScope(Precision precision) : before_(compute_type) {
  compute_type = precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat;
}

PrecisionScope::~PrecisionScope() {
  compute_type = before_;
}

at::ScalarType ComputeType() {
  return compute_type;
}

AutocastScope::AutocastScope(c10::DeviceType device)
    : device_(device), enabled_(compute_type != at::kFloat) {
  if (!enabled_) return;
  at::autocast::set_autocast_dtype(device_, compute_type);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!enabled_) return;
  // The copies of parameters that autocast has made go with the scope: a step changes them.
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
