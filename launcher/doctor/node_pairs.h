// Which pairs of nodes are tested when, and which node or link explains the pairs that failed.
// Pure.
#pragma once

#include <span>
#include <vector>

namespace ddprun::launcher {

// Returns the partner of `node` in each round; -1 means that it rests. Each node meets each other
// node once, and is in one pair a round: `nodes` - 1 rounds, or `nodes` if that is odd.
std::vector<int> PartnersOf(int node, int nodes);

struct NodePair {
  int from = 0;
  int to = 0;

  friend bool operator==(const NodePair&, const NodePair&) = default;
};

struct Blame {
  std::vector<int> nodes;       // each explains the failures with most of the other nodes
  std::vector<NodePair> links;  // the other failures
};

// A node is blamed if pairs with two or more others failed, and these are more than half of the
// others. The node with the most failures is blamed first, and explains all of its own.
Blame BlameFor(std::span<const NodePair> failed, int nodes);

}  // namespace ddprun::launcher
