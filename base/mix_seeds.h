// One seed from several numbers, for randomness that belongs to a place: a rank, a step, a sample.
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

// Depends on every number and on their order. Not the sum of them: seed 42 of rank 1 has nothing to
// do with seed 43 of rank 0.
inline uint64_t MixSeeds(std::initializer_list<uint64_t> numbers) {
  uint64_t mixed = 0;
  for (const uint64_t number : numbers) mixed = MixBits(mixed + number);
  return mixed;
}

}  // namespace ddprun
