// What a run's metrics.jsonl says it came to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct RunSummary {
  int64_t steps = 0;
  std::optional<double> loss;             // mean training loss of the last report
  std::optional<double> validation_loss;  // the last
  std::optional<double> seconds;          // from the first line to the last
  struct Point {
    int64_t step = 0;
    double loss = 0;
  };
  std::vector<Point> curve;  // mean training loss, finite values only
};

// Lines that are broken or unknown are passed over; nothing is there without the file.
RunSummary ReadRunSummary(const std::string& metrics_path);

}  // namespace ddprun::launcher
