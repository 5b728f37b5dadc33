// A run as its folder describes it: metrics.jsonl and config.resolved.json, read for a report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/line_chart.h"
#include "base/result.h"
#include "trainer/report/eval_report.h"
#include "trainer/report/step_timeline.h"

namespace ddprun::trainer {

struct RunHistory {
  struct Event {
    double unix_seconds = 0;
    int64_t step = 0;
    std::string text;
    bool bad = false;
  };
  struct Best {
    std::string metric;
    double value = 0;
    int64_t step = 0;
  };
  struct Memory {  // of a device, in bytes by use
    std::string device;
    std::vector<std::pair<std::string, double>> uses;
  };
  // Means over the steps of the last start: seconds that a rank spent in a step without waits for
  // other ranks.
  struct OwnTime {
    std::string phase;
    double least = 0;  // over ranks
    double median = 0;
    double most = 0;
    int64_t slowest = 0;  // the rank that had the most for the longest
  };
  struct Curve {
    std::string title;
    std::vector<ChartPoint> points;  // x is the step
  };

  std::string folder;
  std::string name;
  std::vector<std::pair<std::string, std::string>> facts;  // {"strategy", "ddp"}
  std::vector<Curve> training;
  std::vector<Curve> validation;  // of each metric, and of the loss
  std::vector<Best> best;
  std::vector<Best> test;     // the last test: its loss and metrics, and the step of the weights
  std::string confusion_of;   // "test, step 40": the evaluation that has counted `confusion`
  ConfusionMatrix confusion;  // of the last test, or else of the last evaluation
  std::vector<Event> events;
  std::vector<std::pair<std::string, double>> seconds;  // of the last ledger, by use
  double goodput = 0;
  std::vector<OwnTime> own_times;        // by phase, then "all"
  std::optional<StepTimeline> timeline;  // of a traced step
  std::vector<Memory> memory;
  std::vector<std::string> notes;             // about gaps in the files
  std::map<std::string, std::string> config;  // key, value as JSON
};

// Reads the folder of a run, which may be under way. Files that are missing or damaged become
// notes. Error: the folder has neither file, or a file cannot be read.
Result<RunHistory> ReadRunHistory(const std::string& folder);

// Returns the points of the curve with this title, and adds it if there is none.
std::vector<ChartPoint>& PointsOf(std::vector<RunHistory::Curve>& curves, const std::string& title);

}  // namespace ddprun::trainer
