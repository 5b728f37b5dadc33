// Plans which gradients are reduced together in a bucket, and finds the bucket sizes with which a
// step is fastest by trying each candidate. Pure.
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
  // A bucket is closed when it holds this many bytes. It may be larger by one gradient, because no
  // gradient is split. The first bucket is small, so that communication starts early.
  int64_t first_bytes = int64_t{1} << 20;
  int64_t cap_bytes = int64_t{25} << 20;
};

// Returns the gradient indices of each bucket. `order` lists every index of `sizes` once, in the
// order in which backward produces the gradients. Buckets are ordered by their last gradient, so
// that they become full in this order.
std::vector<std::vector<size_t>> PlanBuckets(std::span<const GradientSize> sizes,
                                             std::span<const size_t> order,
                                             const BucketLimits& limits);

// One candidate and its measured time.
struct BucketTrial {
  BucketLimits limits;
  int64_t buckets = 0;
  // Mean over the ranks of the median time from Reducer::PrepareBackward() to the averages. The
  // training loop calls it before forward, DistributedDataParallel after forward.
  double seconds = 0;
};

// The measurements from which the sizes were chosen.
struct BucketTuning {
  std::vector<BucketTrial> trials;  // the default first; only layouts that differ
  size_t chosen = 0;
  int64_t steps = 0;  // steps that were measured
};

// Returns the sizes to try, the default (1 and 25 MiB) first.
std::span<const BucketLimits> TuningCandidates();

// Chooses the candidate of each step, and records the step's time. There are two rounds over all
// candidates with three steps each; the first of the three is not counted, because its memory is
// fresh. One thread.
class BucketTuner {
 public:
  // REQUIRES: candidates > 0.
  explicit BucketTuner(size_t candidates) : seconds_(candidates) {}

  bool Complete() const { return steps_ == TotalSteps(); }
  // Returns the candidate of the next step. REQUIRES: !Complete().
  size_t Current() const { return steps_ / kStepsInTurn % seconds_.size(); }
  // Records that one step with Current() took `seconds`.
  void Add(double seconds);
  // Returns the median of each candidate.
  std::vector<double> Medians() const;
  size_t TotalSteps() const { return kRounds * kStepsInTurn * seconds_.size(); }

 private:
  static constexpr size_t kRounds = 2;
  static constexpr size_t kStepsInTurn = 3;

  std::vector<std::vector<double>> seconds_;  // by candidate
  size_t steps_ = 0;
};

// Returns the fastest trial. Returns the first one, which is the default, unless another one is
// faster by more than the noise, 2 %.
size_t FastestTrial(std::span<const double> seconds);

}  // namespace ddprun::trainer
