// Virtual ranks: training uses a fixed number of virtual ranks, and each process computes its share
// of them one after the other. Sums are taken in one order (rank_tree.h), so that every number of
// processes gives the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <ddprun/comm_hook.h>
#include "trainer/parallel/rank_tree.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// The sums over the virtual ranks of one share so far. One thread.
class TreeSum {
 public:
  TreeSum(int64_t ranks, RankRange share) : ranks_(ranks), share_(share) {}

  // Adds the next piece of the share. Copies `value` if it has to be kept.
  void Add(RankRange piece, const at::Tensor& value);
  // Adds the next piece, and takes over `value`: sums with it use its memory.
  void Push(RankRange piece, at::Tensor value);
  // Returns the sums of the complete subtrees: SubtreesIn() of the added pieces.
  const std::vector<at::Tensor>& sums() const { return sums_; }

 private:
  int64_t ranks_;
  RankRange share_;
  std::vector<at::Tensor> sums_;
};

// Averages gradients over virtual ranks. A process with several of them keeps the sums of complete
// subtrees, about log2 of their number. Then each process gets all processes' sums of a slice of
// the bucket, adds them in the tree's order, and sends its slice of the average to the others.
class VirtualRanks final : public CommHook {
 public:
  // REQUIRES: processes <= ranks.
  VirtualRanks(int64_t ranks, int process, int processes);

  std::function<void()> Start(GradientBucket& bucket, c10d::Backend& group) override;
  // Runs a step's micro-batches for one own virtual rank after the other: of n own virtual ranks,
  // number i % n has micro-batch i. All start from the same values of `buffers` (of BatchNorm),
  // which then keep the values of the first one. `take` returns the gradients of a virtual rank, by
  // bucket.
  void RunStep(size_t micro_batches,
               const std::vector<at::Tensor>& buffers,
               const std::function<void(size_t micro_batch)>& run,
               const std::function<std::vector<at::Tensor>()>& take);
  // Names the settings that decide the bits. Throws Failure if a save has others.
  void NameSettings(StateVisitor& visitor) const;

 private:
  // Adds the gradients of the next own virtual rank, by bucket; but Start() adds the last one's.
  void Keep(const std::vector<at::Tensor>& buckets);
  std::function<void()> Exchange(const std::vector<at::Tensor>& sums,
                                 const at::Tensor& flat,
                                 c10d::Backend& group) const;

  const int64_t ranks_;
  const RankRange own_;
  std::vector<std::vector<RankRange>> subtrees_;  // by process
  size_t most_subtrees_ = 0;                      // of one process
  int64_t next_ = 0;                              // the virtual rank of the next Keep()
  std::vector<TreeSum> kept_;                     // by bucket
};

// Returns the sum over the rows of all virtual ranks, in the tree's order. If share.count is 1,
// returns the sum over all processes in the group's order. A collective of the control group;
// nullptr means that this process is alone. `rows`, [own ranks, ...], is overwritten.
at::Tensor SumOverRanks(const at::Tensor& rows, const RankShare& share, c10d::Backend* control);

}  // namespace ddprun::trainer
