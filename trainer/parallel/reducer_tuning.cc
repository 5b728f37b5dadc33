// The reducer's search for bucket sizes.
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "trainer/parallel/reducer.h"

namespace ddprun::trainer {

void Reducer::StartTuning() {
  std::vector<std::vector<std::vector<size_t>>> plans;
  for (const BucketLimits& limits : TuningCandidates()) {
    auto plan = buckets_.Plan(order_, limits);
    if (std::find(plans.begin(), plans.end(), plan) != plans.end()) continue;
    tuning_.trials.push_back({.limits = limits, .buckets = static_cast<int64_t>(plan.size())});
    plans.push_back(std::move(plan));
  }
  step_seconds_.reset();
  tuner_.emplace(tuning_.trials.size());
  Layout(tuning_.trials[tuner_->Current()].limits);
}

// Continues the search. It runs between two steps, on all ranks after the same synchronised
// backward.
void Reducer::Tune() {
  if (!step_seconds_) return;
  const size_t before = tuner_->Current();
  tuner_->Add(*step_seconds_);
  step_seconds_.reset();
  size_t next = before;
  if (tuner_->Complete()) {
    // Averages the times over the ranks, so that all ranks choose the same sizes.
    std::vector<double> seconds = tuner_->Medians();
    const at::Tensor mean = at::from_blob(seconds.data(), std::ssize(seconds), at::kDouble);
    AllReduceOnHost(mesh_.control.get(), mean, c10d::ReduceOp::AVG);
    for (size_t i = 0; i < seconds.size(); ++i) tuning_.trials[i].seconds = seconds[i];
    tuning_.steps = static_cast<int64_t>(tuner_->TotalSteps());
    next = tuning_.chosen = FastestTrial(seconds);
    tuner_.reset();
  } else {
    next = tuner_->Current();
  }
  if (next == before) return;
  Layout(tuning_.trials[next].limits);
}

}  // namespace ddprun::trainer
