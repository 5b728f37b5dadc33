// The arithmetic of an all-reduce: n source arrays into n destination arrays.
#pragma once

#include <cstddef>
#include <span>

#include "trainer/comm/data_type.h"

namespace ddprun::trainer {

// Combines element i of every source, in the order of `sources` (rank order, so that the rounding
// is the same everywhere and every time), and stores the result as element i of every destination.
// 16-bit floating-point values are combined in fp32 and rounded once.
//
// A destination may be the same array as a source (in place), but must not overlap one otherwise.
// REQUIRES: sources is not empty; kAvg only with floating-point types.
void ReduceArrays(DataType type,
                  Reduction reduction,
                  std::span<const std::byte* const> sources,
                  std::span<std::byte* const> destinations,
                  size_t count);

// Divides `count` elements of a floating-point type in place.
void DivideArray(DataType type, std::byte* data, size_t count, int divisor);

}  // namespace ddprun::trainer
