// The order of sums over virtual ranks: a balanced binary tree that depends only on their number,
// not on the processes that compute them. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace ddprun::trainer {

// Consecutive virtual ranks: the share of a process, or a node of the tree.
struct RankRange {
  int64_t begin = 0;
  int64_t end = 1;

  int64_t size() const { return end - begin; }
  bool operator==(const RankRange&) const = default;
};

// The virtual ranks of one process, out of `count`.
struct RankShare {
  RankRange own = {};
  int64_t count = 1;
};

// Returns the virtual ranks of one process. Shares differ by one rank at most, and the larger ones
// come first. REQUIRES: processes <= ranks.
RankRange RanksOfProcess(int64_t ranks, int process, int processes);

// Returns the number of additions after `piece`. Sums use a stack: each piece, a node of the tree
// over [0, ranks), is pushed in order, and each addition then adds the two values on top, which
// completes a larger node within `share`.
int64_t SumsAfter(int64_t ranks, RankRange piece, RankRange share);

// Returns the nodes on the stack after all ranks of `share` were pushed one by one: the largest
// nodes in the share, from left to right, at most 2 log2(ranks) of them.
std::vector<RankRange> SubtreesIn(int64_t ranks, RankRange share);

}  // namespace ddprun::trainer
