// A value for each character, in two stages: equal blocks of 256 characters are stored once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace ddprun::trainer {

// Immutable: any thread. Needs 10 KiB, and a block for each 256 characters unlike all others.
template <class Value>
class CodePointTable {
 public:
  // Calls value_of(char32_t) once for every character, including surrogates.
  template <class ValueOf>
  explicit CodePointTable(const ValueOf& value_of) {
    std::map<Block, uint16_t> known;
    Block block;
    for (char32_t begin = 0; begin < kLimit; begin += kBlock) {
      for (char32_t i = 0; i < kBlock; ++i) block[i] = value_of(begin + i);
      const auto [entry, is_new] = known.emplace(block, static_cast<uint16_t>(blocks_.size()));
      if (is_new) blocks_.push_back(block);
      stage_[begin / kBlock] = entry->second;
    }
  }

  // REQUIRES: c <= 0x10FFFF.
  Value operator[](char32_t c) const { return blocks_[stage_[c / kBlock]][c % kBlock]; }

 private:
  static constexpr char32_t kBlock = 256;
  static constexpr char32_t kLimit = 0x110000;
  using Block = std::array<Value, kBlock>;

  std::array<uint16_t, kLimit / kBlock> stage_;
  std::vector<Block> blocks_;
};

}  // namespace ddprun::trainer
