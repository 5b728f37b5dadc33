// CRC-32C (Castagnoli), the checksum of iSCSI and ext4. Uses the processor's instruction, if any.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddprun {

// Returns the checksum of earlier bytes followed by `bytes`. `crc` is the checksum of the earlier
// bytes; 0 means none.
uint32_t Crc32c(std::string_view bytes, uint32_t crc = 0);
// Computes Crc32c() with a table, for processors without the instruction.
uint32_t Crc32cByTable(std::string_view bytes, uint32_t crc = 0);

}  // namespace ddprun
