// Plans which gradients are reduced together in a bucket. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ddprun/data_parallel_options.h>

namespace ddprun::trainer {

struct GradientSize {
  int64_t bytes = 0;
  int type = 0;  // gradients of different element types never share a bucket
};

// Returns the gradient indices of each bucket. `order` lists every index of `sizes` once, in the
// order in which backward produces the gradients. Buckets are ordered by their last gradient, so
// that they become full in this order.
std::vector<std::vector<size_t>> PlanBuckets(std::span<const GradientSize> sizes,
                                             std::span<const size_t> order,
                                             const BucketLimits& limits);

// Returns the order of all parameters. Parameters without a gradient in the first backward are
// last, so that no other gradient waits for them.
std::vector<size_t> OrderOfArrival(std::vector<size_t> arrived, size_t parameters);

}  // namespace ddprun::trainer
