#include "trainer/report/rank_times_report.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace ddprun::trainer {

namespace {

constexpr size_t kAll = kOwnPhases.size();

double SecondsOf(const RankTimesRow& row, size_t phase) {
  if (phase < kAll) return row.seconds[phase];
  return std::accumulate(row.seconds.begin(), row.seconds.end(), 0.0);
}

std::string_view NameOf(size_t phase) {
  return phase < kAll ? kOwnPhases[phase] : "all";
}

// REQUIRES: not empty.
double MedianOf(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

std::string_view PhaseText(std::string_view phase) {
  if (phase == "data") return "waiting for data";
  if (phase == "between") return "between steps";
  if (phase == "save") return "waiting for saves";
  if (phase == "all") return "together";
  return phase;
}

RankTimesReport CompareRankTimes(std::span<const RankTimesRow> rows) {
  RankTimesReport report;
  std::vector<size_t> ranks;
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    if (rows[rank].steps > 0) ranks.push_back(rank);
  }
  if (ranks.size() < 2) return report;
  report.steps = static_cast<int64_t>(rows[ranks.front()].steps);
  report.several_nodes =
      std::ranges::any_of(rows, [&](const auto& row) { return row.node != rows[0].node; });
  const auto slowest_in = [&](size_t phase) {
    return *std::ranges::max_element(ranks, {},
                                     [&](size_t rank) { return SecondsOf(rows[rank], phase); });
  };
  const auto times_in = [&](size_t phase, size_t without) {
    std::vector<double> times;
    for (const size_t rank : ranks) {
      if (rank != without) times.push_back(SecondsOf(rows[rank], phase));
    }
    return times;
  };
  const size_t slowest = slowest_in(kAll);
  report.slowest = {.rank = static_cast<int>(slowest),
                    .node = static_cast<int>(rows[slowest].node),
                    .seconds = SecondsOf(rows[slowest], kAll),
                    .others = MedianOf(times_in(kAll, slowest))};
  double furthest = 0;
  for (size_t phase = 0; phase <= kAll; ++phase) {
    const std::vector<double> times = times_in(phase, rows.size());
    const double most = std::ranges::max(times);
    if (most <= 0) continue;
    report.phases.push_back({.name = NameOf(phase),
                             .least = std::ranges::min(times),
                             .median = MedianOf(times),
                             .most = most,
                             .slowest = static_cast<int>(slowest_in(phase))});
    const double own = SecondsOf(rows[slowest], phase);
    const double others = MedianOf(times_in(phase, slowest));
    if (phase == kAll || own - others <= furthest) continue;
    furthest = own - others;
    report.slowest.phase = NameOf(phase);
    report.slowest.phase_seconds = own;
    report.slowest.phase_others = others;
  }
  return report;
}

}  // namespace ddprun::trainer
