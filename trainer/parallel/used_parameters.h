// Which parameters any rank has used in a step, if ranks may leave some out.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/parallel/gradient_buckets.h"
#include "trainer/parallel/gradient_readiness.h"

namespace ddprun::trainer {

// One thread at a time.
class UsedParameters {
 public:
  // Asks all ranks. A collective, except where a static graph has shown it before.
  void Find(const GradientReadiness& own, c10d::Backend* control);
  // Gives a gradient, its average, to each parameter of the bucket that other ranks alone have
  // used.
  void ShowAverages(const GradientBuckets& buckets, size_t bucket) const;

 private:
  std::vector<bool> by_any_;  // by parameter
};

}  // namespace ddprun::trainer
