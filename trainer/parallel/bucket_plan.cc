#include "trainer/parallel/bucket_plan.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/check.h"

namespace ddprun::trainer {

std::vector<std::vector<size_t>> PlanBuckets(std::span<const GradientSize> sizes,
                                             std::span<const size_t> order,
                                             const BucketLimits& limits) {
  DDPRUN_CHECK(sizes.size() == order.size());
  struct Open {
    std::vector<size_t> members;
    int64_t bytes = 0;
    size_t last_position = 0;
  };
  std::map<int, Open> open_by_type;
  std::map<size_t, std::vector<size_t>> closed;  // position of the last gradient -> members
  bool first = true;
  for (size_t position = 0; position < order.size(); ++position) {
    const size_t index = order[position];
    Open& open = open_by_type[sizes[index].type];
    open.members.push_back(index);
    open.bytes += sizes[index].bytes;
    open.last_position = position;
    if (open.bytes < (first ? limits.first_bytes : limits.cap_bytes)) continue;
    closed.emplace(position, std::move(open.members));
    open = Open{};
    first = false;
  }
  for (auto& [type, open] : open_by_type) {
    if (!open.members.empty()) closed.emplace(open.last_position, std::move(open.members));
  }
  std::vector<std::vector<size_t>> buckets;
  buckets.reserve(closed.size());
  for (auto& [position, members] : closed) buckets.push_back(std::move(members));
  return buckets;
}

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
