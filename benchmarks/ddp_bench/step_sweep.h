// ddp-bench buckets, overlap and overhead: training steps, with gradients averaged in several ways
// that take turns.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "benchmarks/ddp_bench/step_case.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/parallel/reducer_options.h"

namespace ddprun::bench {

struct Variant {
  enum class Sync {
    kSingle,  // one process without others: gradients are autograd's own tensors
    kLocal,   // gradients are put into buckets all the same, but not averaged
    kDdprun,
    kTorch,  // LibTorch's c10d::Reducer over the same process group
  };

  std::string name;
  Sync sync = Sync::kDdprun;
  trainer::ReducerOptions::Overlap overlap = trainer::ReducerOptions::Overlap::kBackward;
  double bucket_mb = 25;  // MiB; the first bucket at most 1
};

struct SweepOptions {
  int rounds = 5;
  int steps = 10;           // of each variant and round, after two to warm up
  double link_gigabit = 0;  // per second; > 0: all-reduces take as long as on such a link
};

// Prints a table on rank 0. A collective. The times are rank 0's: the median over the steps, of
// the rounds' medians the median; "step" is the mean over a round's steps instead, so that nothing
// is left out. "exposed" is what a step takes longer than with the first variant.
nlohmann::json SweepSteps(const c10::intrusive_ptr<trainer::HostProcessGroup>& group,
                          const StepCase& what,
                          const std::vector<Variant>& variants,
                          const SweepOptions& options);

}  // namespace ddprun::bench
