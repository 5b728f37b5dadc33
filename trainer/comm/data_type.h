// Element types and reductions of the host collectives, free of LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trainer/config/strategy_config.h"

namespace ddprun::trainer {

enum class DataType : uint32_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt32,
  kInt64,
  kUInt8,
  kInt8,
  kInt16,
  kBool  // bytes that are 0 or 1; takes max, min and the reductions of bits
};

// kAvg divides the sum by the number of ranks once, at the end. It needs a floating-point type.
// Operations on bits need an integer or bool.
enum class Reduction : uint32_t { kSum, kAvg, kMax, kMin, kProduct, kBitAnd, kBitOr, kBitXor };

size_t SizeOf(DataType type);
std::string_view NameOf(DataType type);
std::string_view NameOf(Reduction reduction);
std::string_view NameOf(AllReduceAlgorithm algorithm);

}  // namespace ddprun::trainer
