// Finds the bucket sizes with which a step is fastest, by trying each candidate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/parallel/bucket_plan.h"
#include "trainer/parallel/gradient_buckets.h"

namespace ddprun::trainer {

// Returns the sizes to try: the default (1 and 25 MiB), and each other candidate that lays out the
// buckets differently. `order` is GradientBuckets::Plan()'s.
std::vector<BucketTrial> TrialsOf(const GradientBuckets& buckets, std::span<const size_t> order);

// Goes two rounds over all candidates with three steps each; the first of the three is not counted,
// because its memory is fresh. One thread.
class BucketSearch {
 public:
  // REQUIRES: trials is not empty.
  explicit BucketSearch(std::vector<BucketTrial> trials);

  // Returns the sizes of the next step.
  const BucketLimits& limits() const { return tuning_.trials[tuning_.chosen].limits; }
  // Records that one step with limits() took `seconds`. Returns whether limits() has changed. Must
  // be called on all ranks after the same step, because the last one is a collective of `control`.
  bool Add(double seconds, c10d::Backend* control);
  // Returns nullptr until the sizes are found; they are equal on all ranks.
  const BucketTuning* result() const { return tuning_.steps > 0 ? &tuning_ : nullptr; }

 private:
  void Choose(c10d::Backend* control);

  BucketTuning tuning_;                       // `chosen`: the trial of the next step
  std::vector<std::vector<double>> seconds_;  // by trial
  size_t steps_ = 0;
};

// Returns the fastest trial. Returns the first one, which is the default, unless another one is
// faster by more than the noise, 2 %.
size_t FastestTrial(std::span<const double> seconds);

}  // namespace ddprun::trainer
