// The order of sums over virtual ranks: a balanced binary tree that depends on their number alone,
// never on the processes that compute them. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace ddprun::trainer {

// Ranks beside each other: a process's share of them, or a node of the tree.
struct RankRange {
  int64_t begin = 0;
  int64_t end = 1;

  int64_t size() const { return end - begin; }
  bool operator==(const RankRange&) const = default;
};

// What a process has of `count` ranks.
struct RankShare {
  RankRange own = {};
  int64_t count = 1;
};

// Those of one process: shares differ by one rank at most, the larger ones come first.
// REQUIRES: processes <= ranks.
RankRange RanksOfProcess(int64_t ranks, int process, int processes);

// Sums are taken by a stack: each piece, a node of the tree over [0, ranks), is pushed in its turn,
// and then so many additions of the two on top complete larger nodes within `share`.
int64_t SumsAfter(int64_t ranks, RankRange piece, RankRange share);

// What the stack has in the end when all ranks of `share` were pushed one by one: the largest nodes
// in it, from left to right, at most 2 log2(ranks) of them.
std::vector<RankRange> SubtreesIn(int64_t ranks, RankRange share);

}  // namespace ddprun::trainer
