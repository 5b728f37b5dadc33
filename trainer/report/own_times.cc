#include "trainer/report/own_times.h"

#include <algorithm>
#include <string_view>

#include "trainer/report/rank_times_report.h"

namespace ddprun::trainer {

OwnTimes::OwnTimes() {
  for (const std::string_view phase : kOwnPhases) sums_.push_back({.phase = std::string(phase)});
  sums_.push_back({.phase = "all"});
}

void OwnTimes::Add(const LineJson& field) {
  if (!field.is_object()) return;
  const double steps = NumberOf(field, "steps").value_or(0);
  if (!(steps > 0)) return;
  steps_ += steps;
  for (Sum& sum : sums_) {
    const auto phase = field.find(sum.phase);
    if (phase == field.end() || !phase->is_object()) continue;
    sum.least += steps * NumberOf(*phase, "min").value_or(0);
    sum.median += steps * NumberOf(*phase, "median").value_or(0);
    sum.most += steps * NumberOf(*phase, "max").value_or(0);
    sum.slowest[CountOf(*phase, "slowest")] += steps;
  }
}

std::vector<RunHistory::OwnTime> OwnTimes::Means() const {
  std::vector<RunHistory::OwnTime> means;
  for (const Sum& sum : sums_) {
    if (sum.slowest.empty()) continue;
    const auto slowest =
        std::ranges::max_element(sum.slowest, {}, [](const auto& rank) { return rank.second; });
    means.push_back({.phase = sum.phase,
                     .least = sum.least / steps_,
                     .median = sum.median / steps_,
                     .most = sum.most / steps_,
                     .slowest = slowest->first});
  }
  return means;
}

std::optional<double> OwnTimes::SlowestToMedian(const LineJson& field) {
  const auto all = field.is_object() ? field.find("all") : field.end();
  if (all == field.end() || !all->is_object()) return std::nullopt;
  const double median = NumberOf(*all, "median").value_or(0);
  return median > 0 ? std::optional(NumberOf(*all, "max").value_or(0) / median) : std::nullopt;
}

}  // namespace ddprun::trainer
