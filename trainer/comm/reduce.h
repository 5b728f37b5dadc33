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

// A reduction that goes from node to node: each takes up what those before it have accumulated. The
// steps together give the bits that ReduceArrays gives on all arrays at once.
//
// Bytes of an accumulated element: 16-bit floats are accumulated in fp32, others as they are.
size_t PartialSizeOf(DataType type);

struct PartialReduction {
  DataType type;
  Reduction reduction;
  // `count` accumulated elements; nullptr: these are the first arrays.
  const std::byte* before = nullptr;
  // In rank order; at least one.
  std::span<const std::byte* const> sources;
  size_t count = 0;
};

// `after` may be the same memory as `before`.
void FoldArrays(const PartialReduction& reduction, std::byte* after);

// The last step: rounds, divides by `ranks` for kAvg, and stores the result to every destination,
// each of which may be the same array as a source.
void FinishArrays(const PartialReduction& reduction,
                  int ranks,
                  std::span<std::byte* const> destinations);

}  // namespace ddprun::trainer
