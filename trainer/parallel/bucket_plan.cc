#include "trainer/parallel/bucket_plan.h"

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

std::vector<size_t> OrderOfArrival(std::vector<size_t> arrived, size_t parameters) {
  std::vector<bool> came(parameters, false);
  for (const size_t index : arrived) came[index] = true;
  for (size_t index = 0; index < parameters; ++index) {
    if (!came[index]) arrived.push_back(index);
  }
  return arrived;
}

}  // namespace ddprun::trainer
