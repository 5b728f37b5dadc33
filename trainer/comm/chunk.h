// Internal to the node's collectives: how arrays are cut up.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ddprun::trainer {

// Tensors outside the shared heap travel in pieces of this size: a few fit into the last-level
// cache of one core together.
inline constexpr size_t kStagingBytes = size_t{1} << 20;

inline constexpr size_t kLineBytes = 64;  // of the processors' caches

struct Chunk {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};

// The part of `bytes` that rank of size works on. Parts end at cache lines, so that no two ranks
// write to the same one.
inline Chunk ChunkOf(size_t bytes, int rank, int size) {
  const size_t lines = (bytes + kLineBytes - 1) / kLineBytes;
  const size_t n = static_cast<size_t>(size);
  const size_t r = static_cast<size_t>(rank);
  return {std::min(bytes, lines * r / n * kLineBytes),
          std::min(bytes, lines * (r + 1) / n * kLineBytes)};
}

}  // namespace ddprun::trainer
