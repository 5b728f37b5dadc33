#include "trainer/comm/reduce.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "trainer/comm/reduce_elements.h"

namespace ddprun::trainer {

namespace {

// The whole work for one storage type T, accumulated in A.
template <typename T, typename A, Reduction kReduction>
inline __attribute__((always_inline)) void Loop(std::span<const std::byte* const> sources,
                                                std::span<std::byte* const> destinations,
                                                size_t count) {
  const A ranks = static_cast<A>(sources.size());
  A accumulator[kReduceBlock];
  for (size_t begin = 0; begin < count; begin += kReduceBlock) {
    const size_t n = std::min(kReduceBlock, count - begin);
    const T* first = reinterpret_cast<const T*>(sources[0]) + begin;
    for (size_t i = 0; i < n; ++i) accumulator[i] = Load(first[i]);
    for (size_t s = 1; s < sources.size(); ++s) {
      const T* source = reinterpret_cast<const T*>(sources[s]) + begin;
      for (size_t i = 0; i < n; ++i) {
        accumulator[i] = Combine<kReduction, A>(accumulator[i], Load(source[i]));
      }
    }
    if constexpr (kReduction == Reduction::kAvg) {
      for (size_t i = 0; i < n; ++i) accumulator[i] = static_cast<A>(accumulator[i] / ranks);
    }
    T* out = reinterpret_cast<T*>(destinations[0]) + begin;
    for (size_t i = 0; i < n; ++i) Store(accumulator[i], &out[i]);
    for (size_t d = 1; d < destinations.size(); ++d) {
      std::memcpy(reinterpret_cast<T*>(destinations[d]) + begin, out, n * sizeof(T));
    }
  }
}

using Sources = std::span<const std::byte* const>;
using Destinations = std::span<std::byte* const>;

// The case of gradients: N arrays, each of which is replaced by the result. One pass, in which
// every line is read and written once; the general loop above goes through the accumulator.
template <typename T, bool kAverage, size_t kArrays>
inline __attribute__((always_inline)) void AddInPlace(Destinations destinations, size_t count) {
  T* arrays[kArrays];
  for (size_t a = 0; a < kArrays; ++a) arrays[a] = reinterpret_cast<T*>(destinations[a]);
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    T sum = arrays[0][i];
    for (size_t a = 1; a < kArrays; ++a) sum += arrays[a][i];
    if constexpr (kAverage) sum /= static_cast<T>(kArrays);
    for (size_t a = 0; a < kArrays; ++a) arrays[a][i] = sum;
  }
}

// False when there is no such loop for the number of arrays.
template <typename T, bool kAverage>
inline __attribute__((always_inline)) bool TryAddInPlace(Destinations destinations, size_t count) {
  switch (destinations.size()) {
    case 2:
      AddInPlace<T, kAverage, 2>(destinations, count);
      return true;
    case 3:
      AddInPlace<T, kAverage, 3>(destinations, count);
      return true;
    case 4:
      AddInPlace<T, kAverage, 4>(destinations, count);
      return true;
    case 8:
      AddInPlace<T, kAverage, 8>(destinations, count);
      return true;
    default:
      return false;
  }
}

template <typename T>
inline __attribute__((always_inline)) bool TryAddInPlace(Reduction reduction,
                                                         Sources sources,
                                                         Destinations destinations,
                                                         size_t count) {
  if (!std::equal(sources.begin(), sources.end(), destinations.begin(), destinations.end())) {
    return false;
  }
  if (reduction == Reduction::kSum) return TryAddInPlace<T, false>(destinations, count);
  if (reduction == Reduction::kAvg) return TryAddInPlace<T, true>(destinations, count);
  return false;
}

template <typename T, typename A>
inline __attribute__((always_inline)) void LoopFor(Reduction reduction,
                                                   Sources sources,
                                                   Destinations destinations,
                                                   size_t count) {
  switch (reduction) {
    case Reduction::kSum:
      return Loop<T, A, Reduction::kSum>(sources, destinations, count);
    case Reduction::kAvg:
      return Loop<T, A, Reduction::kAvg>(sources, destinations, count);
    case Reduction::kMax:
      return Loop<T, A, Reduction::kMax>(sources, destinations, count);
    case Reduction::kMin:
      return Loop<T, A, Reduction::kMin>(sources, destinations, count);
    case Reduction::kProduct:
      return Loop<T, A, Reduction::kProduct>(sources, destinations, count);
  }
}

// One per storage type: target_clones needs plain functions.
DDPRUN_VECTORIZED void ReduceFloat32(Reduction r, Sources s, Destinations d, size_t n) {
  if (!TryAddInPlace<float>(r, s, d, n)) LoopFor<float, float>(r, s, d, n);
}
DDPRUN_VECTORIZED void ReduceFloat64(Reduction r, Sources s, Destinations d, size_t n) {
  if (!TryAddInPlace<double>(r, s, d, n)) LoopFor<double, double>(r, s, d, n);
}
DDPRUN_VECTORIZED void ReduceFloat16(Reduction r, Sources s, Destinations d, size_t n) {
  LoopFor<Half, float>(r, s, d, n);
}
DDPRUN_VECTORIZED void ReduceBFloat16(Reduction r, Sources s, Destinations d, size_t n) {
  LoopFor<BFloat16, float>(r, s, d, n);
}
DDPRUN_VECTORIZED void ReduceInt32(Reduction r, Sources s, Destinations d, size_t n) {
  // Unsigned: sums wrap around instead of being undefined; order only matters for max and min.
  if (r == Reduction::kMax || r == Reduction::kMin) return LoopFor<int32_t, int32_t>(r, s, d, n);
  LoopFor<uint32_t, uint32_t>(r, s, d, n);
}
DDPRUN_VECTORIZED void ReduceInt64(Reduction r, Sources s, Destinations d, size_t n) {
  if (r == Reduction::kMax || r == Reduction::kMin) return LoopFor<int64_t, int64_t>(r, s, d, n);
  LoopFor<uint64_t, uint64_t>(r, s, d, n);
}
DDPRUN_VECTORIZED void ReduceUInt8(Reduction r, Sources s, Destinations d, size_t n) {
  LoopFor<uint8_t, uint8_t>(r, s, d, n);
}

template <typename T, typename A>
void Divide(std::byte* data, size_t count, int divisor) {
  T* const values = reinterpret_cast<T*>(data);
  for (size_t i = 0; i < count; ++i) {
    Store(Load(values[i]) / static_cast<A>(divisor), &values[i]);
  }
}

bool IsFloatingPoint(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16 ||
         type == DataType::kBFloat16;
}

}  // namespace

void ReduceArrays(
    DataType type, Reduction reduction, Sources sources, Destinations destinations, size_t count) {
  DDPRUN_CHECK(!sources.empty() && !destinations.empty());
  DDPRUN_CHECK(reduction != Reduction::kAvg || IsFloatingPoint(type));
  switch (type) {
    case DataType::kFloat32:
      return ReduceFloat32(reduction, sources, destinations, count);
    case DataType::kFloat64:
      return ReduceFloat64(reduction, sources, destinations, count);
    case DataType::kFloat16:
      return ReduceFloat16(reduction, sources, destinations, count);
    case DataType::kBFloat16:
      return ReduceBFloat16(reduction, sources, destinations, count);
    case DataType::kInt32:
      return ReduceInt32(reduction, sources, destinations, count);
    case DataType::kInt64:
      return ReduceInt64(reduction, sources, destinations, count);
    case DataType::kUInt8:
      return ReduceUInt8(reduction, sources, destinations, count);
  }
}

void DivideArray(DataType type, std::byte* data, size_t count, int divisor) {
  switch (type) {
    case DataType::kFloat32:
      return Divide<float, float>(data, count, divisor);
    case DataType::kFloat64:
      return Divide<double, double>(data, count, divisor);
    case DataType::kFloat16:
      return Divide<Half, float>(data, count, divisor);
    case DataType::kBFloat16:
      return Divide<BFloat16, float>(data, count, divisor);
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUInt8:
      break;
  }
  DDPRUN_CHECK(IsFloatingPoint(type));
}

size_t SizeOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kInt32:
      return 4;
    case DataType::kFloat64:
    case DataType::kInt64:
      return 8;
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return 2;
    case DataType::kUInt8:
      return 1;
  }
  return 1;
}

std::string_view NameOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
    case DataType::kFloat16:
      return "float16";
    case DataType::kBFloat16:
      return "bfloat16";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      return "int64";
    case DataType::kUInt8:
      return "uint8";
  }
  return "unknown type";
}

std::string_view NameOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kAvg:
      return "avg";
    case Reduction::kMax:
      return "max";
    case Reduction::kMin:
      return "min";
    case Reduction::kProduct:
      return "product";
  }
  return "unknown reduction";
}

std::string_view NameOf(AllReduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllReduceAlgorithm::kDirect:
      return "direct";
    case AllReduceAlgorithm::kReduceBroadcast:
      return "reduce_broadcast";
    case AllReduceAlgorithm::kAllToAll:
      return "all_to_all";
    case AllReduceAlgorithm::kRing:
      return "ring";
  }
  return "unknown algorithm";
}

}  // namespace ddprun::trainer
