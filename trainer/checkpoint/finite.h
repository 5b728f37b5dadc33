// Whether numbers, as they lie in memory, are finite.
#pragma once

#include <c10/core/ScalarType.h>

#include <string_view>

namespace ddprun::trainer {

// False: one is NaN or infinite. True, too, for types that have no such numbers, or other ones than
// float64, float32, float16 and bfloat16.
bool AllFinite(std::string_view bytes, c10::ScalarType dtype);

}  // namespace ddprun::trainer
