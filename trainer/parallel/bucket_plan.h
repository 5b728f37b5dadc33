// Which gradients travel together, and with which bucket sizes a step is fastest: each candidate is
// tried in turn. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddprun::trainer {

struct GradientSize {
  int64_t bytes = 0;
  int type = 0;  // gradients of different element types never share a bucket
};

struct BucketLimits {
  // A bucket is closed as soon as it holds this much, so it may be larger by one gradient:
  // none is ever split. The first bucket is small, so that communication starts early.
  int64_t first_bytes = int64_t{1} << 20;
  int64_t cap_bytes = int64_t{25} << 20;
};

// Gradient indices by bucket. `order` lists every index of `sizes` once, in the order in which
// backward produces the gradients; so do the buckets, by their last gradient: in this order they
// become ready to be sent.
std::vector<std::vector<size_t>> PlanBuckets(std::span<const GradientSize> sizes,
                                             std::span<const size_t> order,
                                             const BucketLimits& limits);

// One candidate and what was measured with it.
struct BucketTrial {
  BucketLimits limits;
  int64_t buckets = 0;
  // Mean over the ranks of the median time from the beginning of a synchronised backward (with
  // DistributedDataParallel after forward, in the training loop before it) to the averages.
  double seconds = 0;
};

// How the sizes were found.
struct BucketTuning {
  std::vector<BucketTrial> trials;  // the default first; only those that lay gradients out anew
  size_t chosen = 0;
  int64_t steps = 0;  // that were measured
};

// Sizes that are worth a try, the default (1 and 25 MiB) first.
std::span<const BucketLimits> TuningCandidates();

// Says what to try next and remembers how long it took: two rounds over all candidates, three steps
// each, of which the first is not counted (memory is fresh then). One thread.
class BucketTuner {
 public:
  // REQUIRES: candidates > 0.
  explicit BucketTuner(size_t candidates) : seconds_(candidates) {}

  bool Complete() const { return steps_ == TotalSteps(); }
  // The candidate of the next step. REQUIRES: !Complete().
  size_t Current() const { return steps_ / kStepsInTurn % seconds_.size(); }
  // One step with Current() took so long.
  void Add(double seconds);
  // By candidate.
  std::vector<double> Medians() const;
  size_t TotalSteps() const { return kRounds * kStepsInTurn * seconds_.size(); }

 private:
  static constexpr size_t kRounds = 2;
  static constexpr size_t kStepsInTurn = 3;

  std::vector<std::vector<double>> seconds_;  // by candidate
  size_t steps_ = 0;
};

// The fastest; the first (the default) unless another one beats it by more than noise, 2 %.
size_t FastestTrial(std::span<const double> seconds);

}  // namespace ddprun::trainer
