
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "trainer/comm/reduce.h"
#include "trainer/comm/reduce_elements.h"

namespace ddprun::trainer {

namespace {

using Destinations = std::span<std::byte* const>;

// The destination of a reduction: `after`, or else `destinations`, with the number of ranks.
struct End {
  std::byte* after = nullptr;
  Destinations destinations = {};
  int ranks = 1;
};

template <typename T, typename A>
inline __attribute__((always_inline)) void StoreAll(const End& end,
                                                    size_t begin,
                                                    const A* accumulator,
                                                    size_t n) {
  if (end.after != nullptr) {
    std::memcpy(reinterpret_cast<A*>(end.after) + begin, accumulator, n * sizeof(A));
    return;
  }
  T* out = reinterpret_cast<T*>(end.destinations[0]) + begin;
  for (size_t i = 0; i < n; ++i) Store(accumulator[i], &out[i]);
  for (size_t d = 1; d < end.destinations.size(); ++d) {
    std::memcpy(reinterpret_cast<T*>(end.destinations[d]) + begin, out, n * sizeof(T));
  }
}

template <typename T, typename A, Reduction kReduction>
inline __attribute__((always_inline)) void Loop(const PartialReduction& work, const End& end) {
  A accumulator[kReduceBlock];
  for (size_t begin = 0; begin < work.count; begin += kReduceBlock) {
    const size_t n = std::min(kReduceBlock, work.count - begin);
    size_t s = 0;
    if (work.before != nullptr) {
      std::memcpy(accumulator, reinterpret_cast<const A*>(work.before) + begin, n * sizeof(A));
    } else {
      const T* first = reinterpret_cast<const T*>(work.sources[s++]) + begin;
      for (size_t i = 0; i < n; ++i) accumulator[i] = Load(first[i]);
    }
    for (; s < work.sources.size(); ++s) {
      const T* source = reinterpret_cast<const T*>(work.sources[s]) + begin;
      for (size_t i = 0; i < n; ++i) {
        accumulator[i] = Combine<kReduction, A>(accumulator[i], Load(source[i]));
      }
    }
    for (const std::byte* partial : work.partials) {
      const A* source = reinterpret_cast<const A*>(partial) + begin;
      for (size_t i = 0; i < n; ++i) {
        accumulator[i] = Combine<kReduction, A>(accumulator[i], source[i]);
      }
    }
    if constexpr (kReduction == Reduction::kAvg) {
      const A ranks = static_cast<A>(end.ranks);
      if (end.after == nullptr) {
        for (size_t i = 0; i < n; ++i) accumulator[i] = static_cast<A>(accumulator[i] / ranks);
      }
    }
    StoreAll<T, A>(end, begin, accumulator, n);
  }
}

template <typename T, typename A>
inline __attribute__((always_inline)) void LoopFor(const PartialReduction& work, const End& end) {
  switch (work.reduction) {
    case Reduction::kSum:
      return Loop<T, A, Reduction::kSum>(work, end);
    case Reduction::kAvg:
      return Loop<T, A, Reduction::kAvg>(work, end);
    case Reduction::kMax:
      return Loop<T, A, Reduction::kMax>(work, end);
    case Reduction::kMin:
      return Loop<T, A, Reduction::kMin>(work, end);
    case Reduction::kProduct:
      return Loop<T, A, Reduction::kProduct>(work, end);
    default:
      break;
  }
  if constexpr (std::is_integral_v<A>) {
    if (work.reduction == Reduction::kBitAnd) Loop<T, A, Reduction::kBitAnd>(work, end);
    if (work.reduction == Reduction::kBitOr) Loop<T, A, Reduction::kBitOr>(work, end);
    if (work.reduction == Reduction::kBitXor) Loop<T, A, Reduction::kBitXor>(work, end);
  }
}

// One function per storage type, because target_clones needs plain functions.
DDPRUN_VECTORIZED void RunFloat32(const PartialReduction& work, const End& end) {
  LoopFor<float, float>(work, end);
}
DDPRUN_VECTORIZED void RunFloat64(const PartialReduction& work, const End& end) {
  LoopFor<double, double>(work, end);
}
DDPRUN_VECTORIZED void RunFloat16(const PartialReduction& work, const End& end) {
  LoopFor<Half, float>(work, end);
}
DDPRUN_VECTORIZED void RunBFloat16(const PartialReduction& work, const End& end) {
  LoopFor<BFloat16, float>(work, end);
}
// Unsigned except for max and min, so that sums wrap around instead of being undefined.
DDPRUN_VECTORIZED void RunInt32(const PartialReduction& work, const End& end) {
  const bool ordered = work.reduction == Reduction::kMax || work.reduction == Reduction::kMin;
  ordered ? LoopFor<int32_t, int32_t>(work, end) : LoopFor<uint32_t, uint32_t>(work, end);
}
DDPRUN_VECTORIZED void RunInt64(const PartialReduction& work, const End& end) {
  const bool ordered = work.reduction == Reduction::kMax || work.reduction == Reduction::kMin;
  ordered ? LoopFor<int64_t, int64_t>(work, end) : LoopFor<uint64_t, uint64_t>(work, end);
}
DDPRUN_VECTORIZED void RunInt16(const PartialReduction& work, const End& end) {
  const bool ordered = work.reduction == Reduction::kMax || work.reduction == Reduction::kMin;
  ordered ? LoopFor<int16_t, int16_t>(work, end) : LoopFor<uint16_t, uint16_t>(work, end);
}
DDPRUN_VECTORIZED void RunInt8(const PartialReduction& work, const End& end) {
  const bool ordered = work.reduction == Reduction::kMax || work.reduction == Reduction::kMin;
  ordered ? LoopFor<int8_t, int8_t>(work, end) : LoopFor<uint8_t, uint8_t>(work, end);
}
DDPRUN_VECTORIZED void RunUInt8(const PartialReduction& work, const End& end) {
  LoopFor<uint8_t, uint8_t>(work, end);
}

bool IsFloatingPoint(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16 ||
         type == DataType::kBFloat16;
}

void Run(const PartialReduction& work, const End& end) {
  DDPRUN_CHECK(work.before != nullptr || !work.sources.empty());
  DDPRUN_CHECK(work.reduction != Reduction::kAvg || IsFloatingPoint(work.type));
  DDPRUN_CHECK(work.reduction < Reduction::kBitAnd || !IsFloatingPoint(work.type));
  switch (work.type) {
    case DataType::kFloat32:
      return RunFloat32(work, end);
    case DataType::kFloat64:
      return RunFloat64(work, end);
    case DataType::kFloat16:
      return RunFloat16(work, end);
    case DataType::kBFloat16:
      return RunBFloat16(work, end);
    case DataType::kInt32:
      return RunInt32(work, end);
    case DataType::kInt64:
      return RunInt64(work, end);
    case DataType::kUInt8:
    case DataType::kBool:
      return RunUInt8(work, end);
    case DataType::kInt8:
      return RunInt8(work, end);
    case DataType::kInt16:
      return RunInt16(work, end);
  }
}

}  // namespace

size_t PartialSizeOf(DataType type) {
  const bool half = type == DataType::kFloat16 || type == DataType::kBFloat16;
  return half ? sizeof(float) : SizeOf(type);
}

void FoldArrays(const PartialReduction& reduction, std::byte* after) {
  Run(reduction, {.after = after});
}

void FinishArrays(const PartialReduction& reduction, int ranks, Destinations destinations) {
  DDPRUN_CHECK(!destinations.empty());
  Run(reduction, {.destinations = destinations, .ranks = ranks});
}

}  // namespace ddprun::trainer
