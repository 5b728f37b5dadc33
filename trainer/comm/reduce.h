// The arithmetic of an all-reduce: n source arrays into n destination arrays.
#pragma once

#include <cstddef>
#include <span>

#include "trainer/comm/data_type.h"

namespace ddprun::trainer {

// Combines element i of all sources, and stores the result as element i of every destination. The
// order is the order of `sources`, which is rank order, so that rounding is the same in every run
// on every rank. 16-bit floating-point values are combined in fp32 and rounded once.
//
// A destination may be the same array as a source (in place), but must not overlap one otherwise.
// REQUIRES: sources is not empty; kAvg only with floating-point types.
void ReduceArrays(DataType type,
                  Reduction reduction,
                  std::span<const std::byte* const> sources,
                  std::span<std::byte* const> destinations,
                  size_t count);

// The functions below reduce from node to node: each node adds its arrays to what earlier nodes
// have accumulated. All steps together give the bits of ReduceArrays() on all arrays.
//
// Returns the bytes of an accumulated element: 16-bit floats accumulate in fp32, others unchanged.
size_t PartialSizeOf(DataType type);

struct PartialReduction {
  DataType type;
  Reduction reduction;
  // The accumulated elements of earlier nodes, `count` of them. nullptr means that `sources` are
  // the first arrays.
  const std::byte* before = nullptr;
  // In rank order. REQUIRES: at least one array, or `before`.
  std::span<const std::byte* const> sources;
  size_t count = 0;
  // Elements that other nodes have accumulated, added after the sources.
  std::span<const std::byte* const> partials = {};
};

// Adds the sources and the partials to `before`, and stores the accumulated elements in `after`,
// which may be the same memory as `before`.
void FoldArrays(const PartialReduction& reduction, std::byte* after);

// The last step: adds in the same way, divides by `ranks` for kAvg, rounds, and stores the result
// in every destination. A destination may be the same array as a source.
void FinishArrays(const PartialReduction& reduction,
                  int ranks,
                  std::span<std::byte* const> destinations);

}  // namespace ddprun::trainer
