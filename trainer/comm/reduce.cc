#include "trainer/comm/reduce.h"

#include <algorithm>
#include <array>

#include "trainer/comm/reduce_elements.h"

namespace ddprun::trainer {

namespace {

using Sources = std::span<const std::byte* const>;
using Destinations = std::span<std::byte* const>;

// Reduces kArrays arrays in place, which is the case of gradients. Reads and writes every line
// once, in one pass; the general loop goes through an accumulator.
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

// Returns false if there is no AddInPlace() for the number of arrays.
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

// One function per storage type, because target_clones needs plain functions.
DDPRUN_VECTORIZED bool TryAddFloat32(Reduction r, Sources s, Destinations d, size_t n) {
  return TryAddInPlace<float>(r, s, d, n);
}
DDPRUN_VECTORIZED bool TryAddFloat64(Reduction r, Sources s, Destinations d, size_t n) {
  return TryAddInPlace<double>(r, s, d, n);
}

struct TypeRow {
  std::string_view name;
  size_t size;
};
// Indexed by enumerator. The last row is for invalid types, which another rank's header may have.
constexpr std::array<TypeRow, 11> kTypes = {{{"float32", 4},
                                             {"float64", 8},
                                             {"float16", 2},
                                             {"bfloat16", 2},
                                             {"int32", 4},
                                             {"int64", 8},
                                             {"uint8", 1},
                                             {"int8", 1},
                                             {"int16", 2},
                                             {"bool", 1},
                                             {"unknown type", 1}}};
constexpr std::array<std::string_view, 9> kReductions = {
    "sum", "avg", "max", "min", "product", "band", "bor", "bxor", "unknown reduction"};
constexpr std::array<std::string_view, 6> kAlgorithms = {
    "direct", "reduce_broadcast", "all_to_all", "ring", "hierarchical", "unknown algorithm"};

template <typename Row, size_t kRows>
const Row& RowOf(const std::array<Row, kRows>& rows, auto enumerator) {
  return rows[std::min(static_cast<size_t>(enumerator), kRows - 1)];
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
  return RowOf(kTypes, type).size;
}

std::string_view NameOf(DataType type) {
  return RowOf(kTypes, type).name;
}

std::string_view NameOf(Reduction reduction) {
  return RowOf(kReductions, reduction);
}

std::string_view NameOf(AllReduceAlgorithm algorithm) {
  return RowOf(kAlgorithms, algorithm);
}

}  // namespace ddprun::trainer
