#include "trainer/parallel/bucket_search.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kRounds = 2;
constexpr size_t kStepsInTurn = 3;

constexpr int64_t kMiB = 1 << 20;
constexpr std::array<BucketLimits, 8> kCandidates = {{{1 * kMiB, 25 * kMiB},
                                                      {1 * kMiB, 1 * kMiB},
                                                      {1 * kMiB, 2 * kMiB},
                                                      {1 * kMiB, 5 * kMiB},
                                                      {5 * kMiB, 5 * kMiB},
                                                      {1 * kMiB, 100 * kMiB},
                                                      {25 * kMiB, 25 * kMiB},
                                                      {100 * kMiB, 100 * kMiB}}};

double MedianOf(std::vector<double> values) {
  DDPRUN_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const bool odd = values.size() % 2 == 1;
  return odd ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

std::vector<BucketTrial> TrialsOf(const GradientBuckets& buckets, std::span<const size_t> order) {
  std::vector<BucketTrial> trials;
  std::vector<std::vector<std::vector<size_t>>> plans;
  for (const BucketLimits& limits : kCandidates) {
    auto plan = buckets.Plan(order, limits);
    if (std::find(plans.begin(), plans.end(), plan) != plans.end()) continue;
    trials.push_back({.limits = limits, .buckets = static_cast<int64_t>(plan.size())});
    plans.push_back(std::move(plan));
  }
  return trials;
}

BucketSearch::BucketSearch(std::vector<BucketTrial> trials)
    : tuning_{.trials = std::move(trials)}, seconds_(tuning_.trials.size()) {}

bool BucketSearch::Add(double seconds, c10d::Backend* control) {
  DDPRUN_CHECK(result() == nullptr);
  const size_t before = tuning_.chosen;
  if (steps_ % kStepsInTurn > 0) seconds_[before].push_back(seconds);
  ++steps_;
  tuning_.chosen = steps_ / kStepsInTurn % seconds_.size();
  if (steps_ == kRounds * kStepsInTurn * seconds_.size()) Choose(control);
  return tuning_.chosen != before;
}

// Averages the medians over the ranks, so that all ranks choose the same sizes.
void BucketSearch::Choose(c10d::Backend* control) {
  std::vector<double> medians;
  for (const std::vector<double>& values : seconds_) medians.push_back(MedianOf(values));
  const at::Tensor mean = at::from_blob(medians.data(), std::ssize(medians), at::kDouble);
  AllReduceOnHost(control, mean, c10d::ReduceOp::AVG);
  for (size_t i = 0; i < medians.size(); ++i) tuning_.trials[i].seconds = medians[i];
  tuning_.steps = static_cast<int64_t>(steps_);
  tuning_.chosen = FastestTrial(medians);
}

size_t FastestTrial(std::span<const double> seconds) {
  constexpr double kNoise = 0.02;
  const auto fastest = std::min_element(seconds.begin(), seconds.end());
  if (*fastest >= seconds[0] * (1 - kNoise)) return 0;
  return static_cast<size_t>(fastest - seconds.begin());
}

}  // namespace ddprun::trainer
