// Words of options that the config of ddp-trainer and the library share. Free of LibTorch.
#pragma once

namespace ddprun {

// The work that overlaps with the all-reduces of buckets:
//   kBackward  backward: a full bucket is sent at once; backward returns after all averages
//   kStep      the update: all are sent when backward ends; see wait_for_buckets()
//   kBoth      sent as with kBackward, waited for as with kStep
//   kNone      nothing: sent and waited for when backward ends
enum class Overlap { kBackward, kStep, kBoth, kNone };

// Algorithms of an all-reduce. kDirect is the fastest on one node, and gives the same bits wherever
// the ranks are; kHierarchical is for three and more nodes; the others, on one node, are for study.
// All are deterministic, with equal bits on all ranks. Sums are in rank order, and 16-bit floats
// are rounded once; except kRing, whose sums begin at another rank for each part and are rounded at
// each rank.
enum class AllReduceAlgorithm {
  kDirect,           // each rank sums a part of the data over all ranks and writes it to all
  kReduceBroadcast,  // rank 0 sums everything, then the others fetch the result
  kAllToAll,         // every rank fetches everything and sums it for itself
  kRing,          // each rank adds its part to its left neighbour's sum; the results go around, too
  kHierarchical,  // each node sums over its ranks, then the nodes' sums are added
};

// The optimizers of optimizer.h.
enum class OptimizerType { kAdamW, kAdam, kSgd, kAdagrad, kLion };

// The sizes of a mesh. The data axis has all ranks that are left.
struct MeshSizes {
  int tensor = 1;    // ranks that divide each layer
  int pipeline = 1;  // ranks that divide the stages
  int shard = 0;     // ranks of the data axis that divide the state of one replica
};

}  // namespace ddprun
