// Finds the longest of a set of strings with which a text begins. LibTorch-free.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ddprun::trainer {

// Immutable once filled: any thread. One hash table of (node, byte) -> node.
class ByteTrie {
 public:
  ByteTrie();

  // Inserts a key. A later value of a key replaces the earlier one. An empty key is never found.
  void Insert(std::string_view key, int32_t value);

  struct Match {
    size_t length = 0;  // 0: none
    int32_t value = -1;
  };
  // Returns the longest key with which `text` begins.
  Match Longest(std::string_view text) const {
    Match match;
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = Child(node, static_cast<uint8_t>(text[i]));
      if (node == 0) break;
      if (values_[node] >= 0) match = {.length = i + 1, .value = values_[node]};
    }
    return match;
  }

 private:
  struct Edge {
    uint32_t from_and_byte = 0;  // node << 8 | byte
    uint32_t to = 0;             // 0: free
  };

  uint32_t Child(uint32_t node, uint8_t byte) const {
    const uint32_t key = node << 8 | byte;
    for (uint32_t at = Place(key);; ++at) {
      const Edge& edge = edges_[at & mask_];
      if (edge.to == 0 || edge.from_and_byte == key) return edge.to;
    }
  }
  uint32_t Place(uint32_t key) const { return (key * 0x9E3779B1U) >> shift_; }
  void Grow();
  void Put(Edge edge);

  std::vector<int32_t> values_ = {-1};  // by node; 0 is the root
  std::vector<Edge> edges_;
  uint32_t mask_ = 0;
  int shift_ = 0;
};

}  // namespace ddprun::trainer
