// Compares the own times of ranks: what each spends on a step without waits for other ranks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ddprun::trainer {

// Names in metrics.jsonl.
inline constexpr std::array<std::string_view, 6> kOwnPhases = {"data",   "forward", "backward",
                                                               "update", "between", "save"};

// Returns such a name, or "all", in words.
std::string_view PhaseText(std::string_view phase);

// One rank's mean times. Only doubles, because ranks exchange it as a row of numbers.
struct RankTimesRow {
  double steps = 0;  // 0: a new process, which has measured no step yet
  double node = 0;
  std::array<double, kOwnPhases.size()> seconds = {};  // a step, by phase
};

struct RankTimesReport {
  struct Phase {
    std::string_view name;  // of kOwnPhases, or "all" for the sum
    double least = 0;       // over ranks, in seconds a step
    double median = 0;
    double most = 0;
    int slowest = 0;  // the rank with `most`
  };
  // The rank with the most time in all phases, beside the median of the others.
  struct Slowest {
    int rank = 0;
    int node = 0;
    double seconds = 0;
    double others = 0;
    // The phase in which it is furthest behind.
    std::string_view phase = "all";
    double phase_seconds = 0;
    double phase_others = 0;
  };

  int64_t steps = 0;
  bool alike = true;  // ranks have equal work; stages of a pipeline do not
  bool several_nodes = false;
  std::vector<Phase> phases;  // those that took time, then "all"
  Slowest slowest = {};
};

// `rows` are by rank. The report has no phases if fewer than two ranks have measured. Pure.
RankTimesReport CompareRankTimes(std::span<const RankTimesRow> rows);

}  // namespace ddprun::trainer
