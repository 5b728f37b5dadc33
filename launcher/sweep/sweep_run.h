// The runs of a sweep: from the texts of --sweep, as processes, marked as finished, summed up.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ddprun::launcher {

struct SweepRun {
  std::vector<std::pair<std::string, std::string>> values;  // key, value; in the order of --sweep
  std::string name;                                         // fit for a folder, one per run

  // As for --set.
  std::vector<std::string> Overrides() const;
};

// All combinations of "key=v1,v2" texts; the last key changes fastest. Commas inside brackets,
// braces and quotes belong to a value. kUsage for a key without values, twice the same key, or
// more than 10,000 runs.
Result<std::vector<SweepRun>> PlanSweep(const std::vector<std::string>& texts);

struct ChildEnd {
  int exit_code = 0;               // 128 + n when signal n ended it
  std::optional<int> stop_signal;  // this process was told to stop meanwhile
};

// Forks, calls `run` there and waits. REQUIRES: no other thread runs.
Result<ChildEnd> RunInChild(const std::function<int()>& run);

// What makes two runs the same.
struct RunIdentity {
  std::string config;                  // the text of the config file
  std::vector<std::string> overrides;  // all of them, in their order
  int workers = 1;
};

// The folder in `sweep_folder` whose mark says that it was the same run; nothing when none does.
std::optional<std::string> FindFinished(const std::string& sweep_folder,
                                        const RunIdentity& identity);

// All folders in it with a mark, in the order of their names.
std::vector<std::string> FinishedFolders(const std::string& sweep_folder);

// Call it after exit code 0 only. The mark appears whole or not at all, also when the machine
// fails meanwhile.
Status MarkFinished(const std::string& run_folder, const RunIdentity& identity);

struct RunSummary {
  int64_t steps = 0;
  std::optional<double> loss;             // mean training loss of the last report
  std::optional<double> validation_loss;  // the last
  std::optional<double> seconds;          // from the first line to the last
  std::optional<double> speed;            // samples a second: the median of the steps reported
  struct Point {
    int64_t step = 0;
    double loss = 0;
  };
  std::vector<Point> curve;       // mean training loss, finite values only
  std::vector<Point> validation;  // validation loss, finite values only
};

// Lines that are broken or unknown are passed over; nothing is there without the file.
RunSummary ReadRunSummary(const std::string& metrics_path);

}  // namespace ddprun::launcher
