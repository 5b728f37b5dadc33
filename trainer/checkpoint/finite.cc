#include "trainer/checkpoint/finite.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ddprun::trainer {

namespace {

// Returns whether any number has all bits of the exponent set. The inner loop has no branch, so
// that the compiler vectorizes it.
template <typename Bits>
bool AnyHasAll(std::string_view bytes, Bits exponent) {
  constexpr size_t kBlock = 1024;
  for (; bytes.size() >= sizeof(Bits);) {
    const size_t count = std::min(kBlock, bytes.size() / sizeof(Bits));
    Bits block[kBlock];
    std::memcpy(block, bytes.data(), count * sizeof(Bits));
    Bits found = 0;
    for (size_t i = 0; i < count; ++i)
      found |= static_cast<Bits>((block[i] & exponent) == exponent);
    if (found != 0) return true;
    bytes.remove_prefix(count * sizeof(Bits));
  }
  return false;
}

}  // namespace

bool AllFinite(std::string_view bytes, c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Double:
      return !AnyHasAll<uint64_t>(bytes, 0x7FF0'0000'0000'0000);
    case c10::ScalarType::Float:
      return !AnyHasAll<uint32_t>(bytes, 0x7F80'0000);
    case c10::ScalarType::BFloat16:
      return !AnyHasAll<uint16_t>(bytes, 0x7F80);
    case c10::ScalarType::Half:
      return !AnyHasAll<uint16_t>(bytes, 0x7C00);
    default:
      return true;
  }
}

}  // namespace ddprun::trainer
