#include "trainer/text/byte_trie.h"

#include <bit>
#include <utility>

#include "base/check.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kFirstEdges = 256;
constexpr size_t kMaxNodes = 1 << 24;  // a node and a byte share 32 bits

}  // namespace

ByteTrie::ByteTrie() : edges_(kFirstEdges), mask_(kFirstEdges - 1) {
  shift_ = 32 - std::countr_zero(kFirstEdges);
}

void ByteTrie::Insert(std::string_view key, int32_t value) {
  uint32_t node = 0;
  for (const char c : key) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t child = Child(node, byte);
    if (child == 0) {
      DDPRUN_CHECK(values_.size() < kMaxNodes);
      child = static_cast<uint32_t>(values_.size());
      values_.push_back(-1);
      if (values_.size() * 2 > edges_.size()) Grow();
      Put({.from_and_byte = node << 8 | byte, .to = child});
    }
    node = child;
  }
  if (node != 0) values_[node] = value;
}

void ByteTrie::Grow() {
  const std::vector<Edge> old = std::exchange(edges_, std::vector<Edge>(edges_.size() * 2));
  mask_ = static_cast<uint32_t>(edges_.size() - 1);
  --shift_;
  for (const Edge& edge : old) {
    if (edge.to != 0) Put(edge);
  }
}

void ByteTrie::Put(Edge edge) {
  uint32_t at = Place(edge.from_and_byte);
  while (edges_[at & mask_].to != 0) ++at;
  edges_[at & mask_] = edge;
}

}  // namespace ddprun::trainer
