// Chooses the samples that each rank visits, and their order: index for index like
// torch.utils.data.DistributedSampler (torch 2.11), so that runs can be compared with PyTorch's and
// moved between the two.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddprun {

// The data set, this rank, and the order of samples.
struct DistributedSamplerOptions {
  int64_t dataset_size = 0;
  int64_t num_replicas = 1;  // ranks that share the data set
  int64_t rank = 0;          // in [0, num_replicas)
  bool shuffle = true;       // a new order every epoch; false: 0, 1, 2, ...
  uint64_t seed = 0;         // the same on all ranks
  // True: the tail that num_replicas does not divide is left out.
  // False: the list is padded with its own beginning, so that all ranks get equally many.
  bool drop_last = false;
  // If > 0, the samples that all ranks take in one step. The tail is then padded or cut to a
  // multiple of it, so that the batches of a step together hold the same samples for any number of
  // ranks that divides it. 0: padded or cut to a multiple of num_replicas.
  int64_t global_batch = 0;
  // Each sample's length. If not empty, the order puts samples of similar lengths together, as
  // transformers' DistributedLengthGroupedSampler (4.57) does for batches of group_size. Must
  // outlive the sampler. Needs shuffle.
  std::span<const int64_t> lengths = {};
  int64_t group_size = 1;
};

// The position of a rank, or of a whole run, in its data. It is all that needs saving, because the
// order of an epoch and the randomness of a sample follow from seed and epoch alone.
struct SamplerState {
  int64_t epoch = 0;
  int64_t samples = 0;  // taken entries of the epoch's order, over all ranks
  // The other values that determine the order.
  uint64_t seed = 0;
  int64_t dataset_size = 0;
  bool shuffle = true;
  int64_t group_size = 0;  // of samples of similar lengths; 0: lengths are not used
};

// Sizes of one rank's share. Pure.
struct SamplerShare {
  int64_t total = 0;  // entries over all ranks: the padded or cut list
  int64_t size = 0;   // entries of each rank
  int64_t real = 0;   // entries of this rank that are no padding; they come first
};
SamplerShare ShareOf(const DistributedSamplerOptions& options);

// Returns the entries rank, rank + num_replicas, ... of `order`, padded or cut as the options say.
// Pure. REQUIRES: order.size() == options.dataset_size.
std::vector<int64_t> SelectShare(std::span<const int64_t> order,
                                 const DistributedSamplerOptions& options);

// Returns `permutation` with its samples sorted by falling length within stretches of up to 50 *
// group_size, and the longest sample first, so that memory runs out at once or never. Pure.
std::vector<int64_t> GroupByLength(std::vector<int64_t> permutation,
                                   std::span<const int64_t> lengths,
                                   int64_t group_size);

// Not thread-safe. Usage:
//   DistributedSampler sampler({.dataset_size = n, .num_replicas = world, .rank = rank});
//   for (int64_t epoch = 0; epoch < epochs; ++epoch) {
//     sampler.set_epoch(epoch);  // without it, every epoch has the same order
//     for (int64_t index : sampler.Indices()) ...
//   }
class DistributedSampler {
 public:
  // Throws Failure if dataset_size is negative, rank is outside [0, num_replicas), or global_batch
  // is not a multiple of num_replicas.
  explicit DistributedSampler(const DistributedSamplerOptions& options);

  void set_epoch(int64_t epoch) {
    epoch_ = epoch;
    taken_ = 0;
  }
  int64_t epoch() const { return epoch_; }

  // Returns this rank's indices of the epoch, size() of them. If `ranks` > 1, the indices of the
  // `ranks` - 1 following ranks come after them.
  std::vector<int64_t> Indices(int64_t ranks = 1) const;
  // Returns Indices() without the padding: over all ranks, every sample that is not dropped comes
  // exactly once. Use it for validation, because a sample counted twice falsifies the mean.
  std::vector<int64_t> IndicesWithoutPadding() const;

  // Returns the position of the run when each rank has taken `taken` of its Indices()
  // (Loader::taken()).
  SamplerState state(int64_t taken) const;
  // Resumes in the epoch of `state`. Indices() returns the whole epoch, of which the first taken()
  // were taken. The number of ranks may differ. Throws Failure if the state has another data set,
  // seed or order, or if the ranks cannot divide its samples equally.
  void Restore(const SamplerState& state);
  int64_t taken() const { return taken_; }

  int64_t size() const { return share_.size; }

 private:
  const DistributedSamplerOptions options_;
  const SamplerShare share_;
  int64_t epoch_ = 0;
  int64_t taken_ = 0;
};

}  // namespace ddprun
