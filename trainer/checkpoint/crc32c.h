// CRC-32C (Castagnoli), the checksum of iSCSI, ext4 and others; by the processor where it can.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddprun::trainer {

// Of the bytes before, whose checksum `crc` is (none: 0), and `bytes`.
uint32_t Crc32c(std::string_view bytes, uint32_t crc = 0);
// The same by table: what a processor without the instruction runs.
uint32_t Crc32cByTable(std::string_view bytes, uint32_t crc = 0);

}  // namespace ddprun::trainer
