#include "trainer/parallel/rank_tree.h"

#include <algorithm>

namespace ddprun::trainer {

RankRange RanksOfProcess(int64_t ranks, int process, int processes) {
  const int64_t least = ranks / processes;
  const int64_t larger = ranks % processes;
  const int64_t begin = process * least + std::min<int64_t>(process, larger);
  return {.begin = begin, .end = begin + least + (process < larger ? 1 : 0)};
}

int64_t SumsAfter(int64_t ranks, RankRange piece, RankRange share) {
  int64_t sums = 0;
  RankRange node{.begin = 0, .end = ranks};
  while (node != piece) {
    if (node.end == piece.end && node.begin >= share.begin) ++sums;
    const int64_t middle = node.begin + (node.size() + 1) / 2;
    (piece.begin < middle ? node.end : node.begin) = middle;
  }
  return sums;
}

std::vector<RankRange> SubtreesIn(int64_t ranks, RankRange share) {
  std::vector<RankRange> nodes;
  for (int64_t rank = share.begin; rank < share.end; ++rank) {
    const RankRange piece{.begin = rank, .end = rank + 1};
    nodes.push_back(piece);
    for (int64_t sums = SumsAfter(ranks, piece, share); sums > 0; --sums) {
      nodes.pop_back();
      nodes.back().end = piece.end;
    }
  }
  return nodes;
}

}  // namespace ddprun::trainer
