// Element types and reductions of the host collectives, free of LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddprun::trainer {

enum class DataType : uint32_t { kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kInt64, kUInt8 };

// kAvg divides the sum by the number of ranks once, at the end; floating-point types only.
enum class Reduction : uint32_t { kSum, kAvg, kMax, kMin, kProduct };

// How an all-reduce is done. kDirect is the fast one; the others are the textbook's, for study.
// Rank-order sums, with 16-bit floats rounded once: all but kRing, whose sums go around the ring,
// from another rank for each part of the data, and are rounded at every rank. All are
// deterministic and give the same bits on all ranks.
enum class AllReduceAlgorithm : uint32_t {
  kDirect,           // each rank sums a part of the data over all ranks and writes it to all
  kReduceBroadcast,  // rank 0 sums everything, then the others fetch the result
  kAllToAll,         // every rank fetches everything and sums it for itself
  kRing,             // each rank adds its part to what its left neighbour has; then parts go around
};

size_t SizeOf(DataType type);
std::string_view NameOf(DataType type);
std::string_view NameOf(Reduction reduction);
std::string_view NameOf(AllReduceAlgorithm algorithm);

}  // namespace ddprun::trainer
