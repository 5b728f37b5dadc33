// Makes one seed of several numbers, such as those of a rank, a step and a sample.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace ddprun {

// The last step of splitmix64.
inline uint64_t MixBits(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Depends on every number and on their order, so that seed 42 on rank 1 and seed 43 on rank 0 have
// nothing in common, unlike with a sum.
inline uint64_t MixSeeds(std::initializer_list<uint64_t> numbers) {
  uint64_t mixed = 0;
  for (const uint64_t number : numbers) mixed = MixBits(mixed + number);
  return mixed;
}

}  // namespace ddprun
