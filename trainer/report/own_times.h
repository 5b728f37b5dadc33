// Adds up the own times of ranks of the lines of metrics.jsonl.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/report/line_json.h"
#include "trainer/report/run_history.h"

namespace ddprun::trainer {

class OwnTimes {
 public:
  OwnTimes();
  // `field`: "own_seconds" of a line. A value that is missing or damaged in it counts as nothing.
  void Add(const LineJson& field);
  // Returns the means of the steps, by phase.
  std::vector<RunHistory::OwnTime> Means() const;

  // Returns the time of the slowest rank in all phases, times the median.
  static std::optional<double> SlowestToMedian(const LineJson& field);

 private:
  struct Sum {
    std::string phase;
    double least = 0;
    double median = 0;
    double most = 0;
    std::map<int64_t, double> slowest = {};  // steps by rank
  };
  std::vector<Sum> sums_;
  double steps_ = 0;
};

}  // namespace ddprun::trainer
