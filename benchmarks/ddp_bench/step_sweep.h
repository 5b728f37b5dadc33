// ddp-bench buckets, overlap and overhead: training steps with several ways to average gradients.
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
    kSingle,  // one process: gradients are autograd's own tensors
    kLocal,   // gradients are put into buckets but not averaged
    kDdprun,
    kTorch,  // LibTorch's c10d::Reducer over the same process group
  };

  std::string name;
  Sync sync = Sync::kDdprun;
  trainer::ReducerOptions::Overlap overlap = trainer::ReducerOptions::Overlap::kBackward;
  double bucket_mb = 25;  // MiB; the first bucket has at most 1
};

struct SweepOptions {
  int rounds = 5;
  int steps = 10;           // of each variant and round, after two for warm-up
  double link_gigabit = 0;  // per second; the group's Options::link_gigabit, for the report
};

// A collective. Prints a table on rank 0 with rank 0's times: the median of the rounds' medians
// over their steps. "step" uses the mean over a round's steps, so that no time is left out.
// "exposed" is the time by which a step is longer than with the first variant.
nlohmann::json SweepSteps(const c10::intrusive_ptr<HostProcessGroup>& group,
                          const StepCase& what,
                          const std::vector<Variant>& variants,
                          const SweepOptions& options);

}  // namespace ddprun::bench
