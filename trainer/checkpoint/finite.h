// Checks whether numbers in memory are finite.
#pragma once

#include <c10/core/ScalarType.h>

#include <string_view>

namespace ddprun::trainer {

// Returns false if a number is NaN or infinite. Returns true for types other than float64, float32,
// float16 and bfloat16.
bool AllFinite(std::string_view bytes, c10::ScalarType dtype);

}  // namespace ddprun::trainer
