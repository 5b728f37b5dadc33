// Which gradients travel together. Pure: sizes and an order in, buckets out.
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

}  // namespace ddprun::trainer
