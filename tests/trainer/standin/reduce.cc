#include "tests/trainer/standin/reduce.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace standin {
namespace {

struct Bfloat {
  Bfloat() = default;
  explicit Bfloat(float value) {
    uint32_t wide;
    std::memcpy(&wide, &value, 4);
    bits = std::isnan(value) ? 0x7fc0
                             : static_cast<uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
  explicit operator float() const {
    const uint32_t wide = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
  }
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
  uint16_t bits = 0;
};

template <typename Function>
auto WithType(ncclDataType_t type, const Function& function) {
  switch (type) {
    case ncclInt8:
      return function(int8_t{});
    case ncclUint8:
      return function(uint8_t{});
    case ncclInt32:
      return function(int32_t{});
    case ncclUint32:
      return function(uint32_t{});
    case ncclInt64:
      return function(int64_t{});
    case ncclUint64:
      return function(uint64_t{});
    case ncclFloat64:
      return function(double{});
    case ncclFloat16:
      return function(_Float16{});
    case ncclBfloat16:
      return function(Bfloat{});
    default:
      return function(float{});
  }
}

template <typename T>
T Combine(T one, T other, ncclRedOp_t op) {
  switch (op) {
    case ncclProd:
      return static_cast<T>(one * other);
    case ncclMax:
      return one > other ? one : other;
    case ncclMin:
      return one < other ? one : other;
    default:
      return static_cast<T>(one + other);
  }
}

}  // namespace

size_t SizeOf(ncclDataType_t type) {
  return WithType(type, [](auto element) { return sizeof element; });
}

double NumberOf(const void* memory, ncclDataType_t type) {
  return WithType(type, [&](auto element) {
    std::memcpy(&element, memory, sizeof element);
    return static_cast<double>(element);
  });
}

void Reduce(const std::vector<std::vector<char>>& from,
            ncclDataType_t type,
            ncclRedOp_t op,
            double factor,
            void* to) {
  WithType(type, [&](auto element) {
    using Element = decltype(element);
    using Sum = std::conditional_t<sizeof(Element) == 2, float, Element>;
    const auto ranks = from.size();
    for (size_t i = 0; i < from[0].size() / sizeof element; ++i) {
      Sum sum{};
      for (size_t rank = 0; rank < ranks; ++rank) {
        std::memcpy(&element, from[rank].data() + i * sizeof element, sizeof element);
        const auto one = static_cast<Sum>(static_cast<Sum>(element) * static_cast<Sum>(factor));
        sum = rank == 0 ? one : Combine(sum, one, op);
      }
      if (op == ncclAvg) sum = static_cast<Sum>(sum / static_cast<Sum>(ranks));
      element = static_cast<Element>(sum);
      std::memcpy(static_cast<char*>(to) + i * sizeof element, &element, sizeof element);
    }
  });
}

}  // namespace standin
