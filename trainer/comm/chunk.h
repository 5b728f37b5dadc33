// The division of arrays in the node's collectives. Internal to them.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ddprun::trainer {

// A tensor outside the shared heap is copied in pieces of this size, because a few such pieces
// together fit into the last-level cache of one core.
inline constexpr size_t kStagingBytes = size_t{1} << 20;

inline constexpr size_t kLineBytes = 64;  // a cache line of the processors

struct Chunk {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};

// Returns the part of `bytes` that `rank` of `size` ranks works on. Parts end at cache lines, so
// that no two ranks write to one line.
inline Chunk ChunkOf(size_t bytes, int rank, int size) {
  const size_t lines = (bytes + kLineBytes - 1) / kLineBytes;
  const size_t n = static_cast<size_t>(size);
  const size_t r = static_cast<size_t>(rank);
  return {std::min(bytes, lines * r / n * kLineBytes),
          std::min(bytes, lines * (r + 1) / n * kLineBytes)};
}

}  // namespace ddprun::trainer
