// The runs of a sweep: marked as finished, and summarised.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ddprun::launcher {

// Two runs are the same if these are equal.
struct RunIdentity {
  std::string config;                  // the text of the config file
  std::vector<std::string> overrides;  // all, in their order
  int workers = 1;
};

// Returns the folder in `sweep_folder` whose mark has this identity, or nullopt.
std::optional<std::string> FindFinished(const std::string& sweep_folder,
                                        const RunIdentity& identity);

// Returns all folders in `sweep_folder` that have a mark, sorted by name.
std::vector<std::string> FinishedFolders(const std::string& sweep_folder);

// Writes the mark whole or not at all, also if the machine crashes. REQUIRES: exit code 0.
Status MarkFinished(const std::string& run_folder, const RunIdentity& identity);

struct RunSummary {
  int64_t steps = 0;
  bool stopped = false;                   // before its last step
  std::optional<double> loss;             // mean training loss of the last report
  std::optional<double> validation_loss;  // of the last evaluation
  std::string metric;                     // checkpoint.save_best of the run
  std::optional<double> best;             // the best value of this metric
  std::optional<double> seconds;          // from the first line to the last
  std::optional<double> speed;            // median of the reported samples per second
  struct Point {
    int64_t step = 0;
    double loss = 0;
  };
  std::vector<Point> curve;       // mean training loss, finite values only
  std::vector<Point> validation;  // validation loss, finite values only
};

// Ignores broken and unknown lines. Without the file the summary is empty.
RunSummary ReadRunSummary(const std::string& metrics_path);

}  // namespace ddprun::launcher
