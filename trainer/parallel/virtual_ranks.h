// Virtual ranks: a fixed number of them trains, a process computes one after the other of its
// share, and what they find is added up in one order (rank_tree.h). So every number of processes
// gives the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/parallel/comm_hook.h"
#include "trainer/parallel/rank_tree.h"

namespace ddprun::trainer {

// Sums of one share's ranks so far. One thread.
class TreeSum {
 public:
  TreeSum(int64_t ranks, RankRange share) : ranks_(ranks), share_(share) {}

  // The next piece of the share, of which a copy is taken where it has to be kept.
  void Add(RankRange piece, const at::Tensor& value);
  // The same with a tensor that others no longer need: sums with it lie in its memory.
  void Push(RankRange piece, at::Tensor value);
  // Of the complete subtrees, SubtreesIn() of what was added.
  const std::vector<at::Tensor>& sums() const { return sums_; }

 private:
  int64_t ranks_;
  RankRange share_;
  std::vector<at::Tensor> sums_;
};

// Gradients are averaged over virtual ranks. A process with several keeps the sums of complete
// subtrees, some log2 of their number; then each process gets all processes' sums of a slice of the
// bucket, adds them up in the tree's order, and gives the others its slice of the average.
class VirtualRanks final : public CommHook {
 public:
  // REQUIRES: processes <= ranks.
  VirtualRanks(int64_t ranks, int process, int processes);

  int64_t ranks() const { return ranks_; }
  RankRange own() const { return own_; }

  // Forgets what was kept.
  void BeginStep() { kept_.clear(); }
  // The gradients of the next own virtual rank, by bucket: of each but the last, which Start sees.
  void Keep(const std::vector<at::Tensor>& buckets);
  std::function<void()> Start(GradientBucket& bucket, c10d::Backend& group) override;

 private:
  std::function<void()> Exchange(const std::vector<at::Tensor>& sums,
                                 const at::Tensor& flat,
                                 c10d::Backend& group) const;

  const int64_t ranks_;
  const RankRange own_;
  std::vector<std::vector<RankRange>> subtrees_;  // by process
  size_t most_subtrees_ = 0;                      // of one process
  int64_t next_ = 0;                              // virtual rank to keep
  std::vector<TreeSum> kept_;                     // by bucket
};

// A collective of the control group, nullptr: alone. `rows`, [own ranks of the share, ...], is
// used up. The sum over the rows of all ranks, taken in the tree; where the share is
// one of one, over those of all processes, in the group's order.
at::Tensor SumOverRanks(const at::Tensor& rows, const RankShare& share, c10d::Backend* control);

}  // namespace ddprun::trainer
