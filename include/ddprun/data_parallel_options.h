// The options of DistributedDataParallel, and what it finds out about the sizes of buckets.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <ddprun/options.h>

namespace ddprun {

class CommHook;

// Defaults are those of PyTorch. Sizes are in MiB.
struct DistributedDataParallelOptions {
  double bucket_cap_mb = 25;
  double first_bucket_mb = 1;
  bool tune_buckets = false;  // find both sizes in the first steps
  Overlap overlap = Overlap::kBackward;
  // Allows parameters without a gradient; they may differ between ranks and backwards. Costs one
  // small collective a step.
  bool find_unused_parameters = false;
  // Every backward uses the parameters of the first one, each equally often.
  bool static_graph = false;
  // Checks every gradient and throws at the first one that is not finite.
  bool check_finite = false;
  // Updates parameters within backward, bucket by bucket: called on its thread, with the parameters
  // whose gradients are averaged. Do not call optimizer.step() then.
  std::function<void(std::span<const at::Tensor> parameters)> update_in_backward = {};
  bool broadcast_buffers = true;  // from rank 0, before every forward that synchronises
  std::shared_ptr<CommHook> comm_hook = {};
};

// Sizes of buckets.
struct BucketLimits {
  // A bucket is closed when it holds this many bytes. It may be larger by one gradient, because no
  // gradient is split. The first bucket is small, so that communication starts early.
  int64_t first_bytes = int64_t{1} << 20;
  int64_t cap_bytes = int64_t{25} << 20;
};

// One candidate and its measured time.
struct BucketTrial {
  BucketLimits limits;
  int64_t buckets = 0;
  // Mean over the ranks of the median time to the averages: from the end of forward, or in
  // ddp-trainer from its begin.
  double seconds = 0;
};

// The measurements from which the sizes were chosen.
struct BucketTuning {
  std::vector<BucketTrial> trials;  // the default first; only layouts that differ
  size_t chosen = 0;
  int64_t steps = 0;  // steps that were measured
};

}  // namespace ddprun
