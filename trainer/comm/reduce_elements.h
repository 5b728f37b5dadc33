// Stores and combines elements. Internal to the reductions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "trainer/comm/data_type.h"

// DDPRUN_VECTORIZED compiles a function once per instruction set, and the loader chooses one
// version when the program starts, so that one binary serves all x86-64 machines. Not with
// sanitizers, because their instrumentation runs before the loader is ready for the choice.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DDPRUN_VECTORIZED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DDPRUN_VECTORIZED
#endif

namespace ddprun::trainer {

// Elements combined at a time. The number is small, so that the accumulator stays in the
// first-level cache.
inline constexpr size_t kReduceBlock = 2048;

// Load() converts a storage type to the type that accumulates it. 16-bit floats are plain bits.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline float Load(BFloat16 value) {
  return std::bit_cast<float>(uint32_t{value.bits} << 16);
}

inline float Load(Half value) {
  // A multiplication re-biases the exponent, because it gets subnormal values right as well.
  const uint32_t magnitude = uint32_t{value.bits & 0x7fffU} << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const uint32_t special = (value.bits & 0x7c00U) == 0x7c00U ? 0x7f800000U : 0;
  const uint32_t sign = uint32_t{value.bits & 0x8000U} << 16;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special | sign);
}

template <typename T>
inline T Load(T value) {
  return value;
}

// Rounds to nearest, ties to even, as ATen does.
inline void Store(float value, BFloat16* out) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  out->bits = value != value ? uint16_t{0x7fc0} : static_cast<uint16_t>(rounded);
}

inline void Store(float value, Half* out) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  uint32_t result = 0;
  if (magnitude >= 0x7f800000U) {  // infinity or NaN
    result = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  } else if (magnitude >= 0x477ff000U) {  // rounds to more than the largest half
    result = 0x7c00U;
  } else if (magnitude < 0x38800000U) {  // subnormal half: let the addition round
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    result = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5F);
  } else {
    result = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  }
  out->bits = static_cast<uint16_t>(result | sign);
}

template <typename T>
inline void Store(T value, T* out) {
  *out = value;
}

template <Reduction kReduction, typename A>
inline A Combine(A a, A b) {
  if constexpr (kReduction == Reduction::kMax) {
    // A NaN wins, as in torch, so that the order of the ranks cannot hide it.
    return a > b || a != a ? a : b;
  } else if constexpr (kReduction == Reduction::kMin) {
    return a < b || a != a ? a : b;
  } else if constexpr (kReduction == Reduction::kProduct && std::is_integral_v<A>) {
    // In 64 bits, because a product of two uint16_t would be a signed int that overflows.
    return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else if constexpr (kReduction == Reduction::kProduct) {
    return static_cast<A>(a * b);
  } else if constexpr (kReduction == Reduction::kBitAnd) {
    return static_cast<A>(a & b);
  } else if constexpr (kReduction == Reduction::kBitOr) {
    return static_cast<A>(a | b);
  } else if constexpr (kReduction == Reduction::kBitXor) {
    return static_cast<A>(a ^ b);
  } else {
    return static_cast<A>(a + b);
  }
}

}  // namespace ddprun::trainer
