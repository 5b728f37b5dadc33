#include "trainer/parallel/bucket_tuner.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace ddprun::trainer {

std::span<const BucketLimits> TuningCandidates() {
  constexpr int64_t kMiB = 1 << 20;
  static constexpr std::array<BucketLimits, 8> kCandidates = {{{1 * kMiB, 25 * kMiB},
                                                               {1 * kMiB, 1 * kMiB},
                                                               {1 * kMiB, 2 * kMiB},
                                                               {1 * kMiB, 5 * kMiB},
                                                               {5 * kMiB, 5 * kMiB},
                                                               {1 * kMiB, 100 * kMiB},
                                                               {25 * kMiB, 25 * kMiB},
                                                               {100 * kMiB, 100 * kMiB}}};
  return kCandidates;
}

void BucketTuner::Add(double seconds) {
  DDPRUN_CHECK(!Complete());
  if (steps_ % kStepsInTurn > 0) seconds_[Current()].push_back(seconds);
  ++steps_;
}

std::vector<double> BucketTuner::Medians() const {
  std::vector<double> medians;
  for (std::vector<double> values : seconds_) {
    DDPRUN_CHECK(!values.empty());
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    const bool odd = values.size() % 2 == 1;
    medians.push_back(odd ? values[middle] : (values[middle - 1] + values[middle]) / 2);
  }
  return medians;
}

size_t FastestTrial(std::span<const double> seconds) {
  constexpr double kNoise = 0.02;
  const auto fastest = std::min_element(seconds.begin(), seconds.end());
  if (*fastest >= seconds[0] * (1 - kNoise)) return 0;
  return static_cast<size_t>(fastest - seconds.begin());
}

}  // namespace ddprun::trainer
