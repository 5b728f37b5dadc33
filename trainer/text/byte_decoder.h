// SEAM: turns the bytes of a file in some format into the bytes of another, for FileStream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace ddprun::trainer {

// Errors are FileStream's. Not thread-safe.
class ByteDecoder {
 public:
  virtual ~ByteDecoder() = default;
  // Fills all of `to`, or less at the end. Returns how much.
  virtual Result<size_t> Read(char* to, size_t size) = 0;
  // Returns how many bytes of the file it has read; 0: unknown.
  virtual int64_t file_bytes_read() const { return 0; }
};

}  // namespace ddprun::trainer
