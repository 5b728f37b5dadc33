#include "base/crc32c.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <array>
#include <cstring>

namespace ddprun {

namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41 with its bits in reverse order

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

#ifdef __x86_64__
__attribute__((target("sse4.2,crc32"))) uint32_t Crc32cByProcessor(std::string_view bytes,
                                                                   uint32_t crc) {
  uint64_t state = ~crc;
  while (bytes.size() >= sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    state = __builtin_ia32_crc32di(state, word);
    bytes.remove_prefix(sizeof(word));
  }
  auto rest = static_cast<uint32_t>(state);
  for (const char byte : bytes) {
    rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(byte));
  }
  return ~rest;
}
#endif

}  // namespace

uint32_t Crc32cByTable(std::string_view bytes, uint32_t crc) {
  uint32_t state = ~crc;
  for (const char byte : bytes) {
    state = (state >> 8) ^ kCrcTable[(state ^ static_cast<unsigned char>(byte)) & 0xFF];
  }
  return ~state;
}

uint32_t Crc32c(std::string_view bytes, uint32_t crc) {
#ifdef __x86_64__
  // __builtin_cpu_supports() needs a library that not every clang has (the portable wheel's).
  static const bool by_processor = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSE4_2) != 0;
  }();
  if (by_processor) return Crc32cByProcessor(bytes, crc);
#endif
  return Crc32cByTable(bytes, crc);
}

}  // namespace ddprun
