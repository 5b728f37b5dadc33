#include "trainer/comm/reduce.h"

#include <algorithm>

#include "trainer/comm/reduce_elements.h"

namespace ddprun::trainer {

namespace {

using Sources = std::span<const std::byte* const>;
using Destinations = std::span<std::byte* const>;

// The case of gradients: N arrays, each of which is replaced by the result. One pass, in which
// every line is read and written once; the general loop goes through an accumulator.
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

// One per storage type: target_clones needs plain functions.
DDPRUN_VECTORIZED bool TryAddFloat32(Reduction r, Sources s, Destinations d, size_t n) {
  return TryAddInPlace<float>(r, s, d, n);
}
DDPRUN_VECTORIZED bool TryAddFloat64(Reduction r, Sources s, Destinations d, size_t n) {
  return TryAddInPlace<double>(r, s, d, n);
}

}  // namespace

void ReduceArrays(
    DataType type, Reduction reduction, Sources sources, Destinations destinations, size_t count) {
  if (type == DataType::kFloat32 && TryAddFloat32(reduction, sources, destinations, count)) return;
  if (type == DataType::kFloat64 && TryAddFloat64(reduction, sources, destinations, count)) return;
  FinishArrays({.type = type, .reduction = reduction, .sources = sources, .count = count},
               static_cast<int>(sources.size()), destinations);
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
