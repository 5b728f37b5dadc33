// The reducer's search for bucket sizes.
#include <ATen/ops/empty.h>

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

// Between two steps; on all ranks after the same synchronised backwards.
void Reducer::Tune() {
  if (!step_seconds_) return;
  const size_t before = tuner_->Current();
  tuner_->Add(*step_seconds_);
  step_seconds_.reset();
  size_t next = before;
  if (tuner_->Complete()) {
    const std::vector<double> seconds = MeanOverRanks(tuner_->Medians());
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

// The same bits on all ranks: they must choose alike.
std::vector<double> Reducer::MeanOverRanks(const std::vector<double>& values) {
  const int64_t count = static_cast<int64_t>(values.size());
  const at::Tensor mean = at::empty({count}, at::kDouble);
  std::copy(values.begin(), values.end(), mean.mutable_data_ptr<double>());
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::AVG;
  std::vector<at::Tensor> tensors = {mean};
  group_->allreduce(tensors, options)->wait();
  const double* data = mean.const_data_ptr<double>();
  return {data, data + count};
}

}  // namespace ddprun::trainer
