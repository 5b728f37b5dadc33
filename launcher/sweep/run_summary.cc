#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/metric_order.h"
#include "launcher/sweep/sweep_run.h"

namespace ddprun::launcher {

namespace {

// Reads a number, or "nan" and "inf" as strings, because JSON has no such numbers.
std::optional<double> Number(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  if (*found == "nan") return std::nan("");
  if (*found == "inf") return std::numeric_limits<double>::infinity();
  if (*found == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

void AddPoint(const RunSummary& summary,
              const std::optional<double>& loss,
              std::vector<RunSummary::Point>& curve) {
  if (loss && std::isfinite(*loss)) curve.push_back({summary.steps, *loss});
}

void AddBest(const nlohmann::json& line, RunSummary& summary) {
  const auto value = Number(line, summary.metric.c_str());
  if (!value || std::isnan(*value)) return;
  const double best = summary.best.value_or(*value);
  summary.best = HigherIsBetter(summary.metric) ? std::max(best, *value) : std::min(best, *value);
}

void ReadLine(const nlohmann::json& line, RunSummary& summary, std::vector<double>& speeds) {
  if (const auto step = Number(line, "step")) summary.steps = static_cast<int64_t>(*step);
  if (line.value("event", "") == "end") summary.stopped = line.value("reason", "") == "stopped";
  if (line.value("event", "") == "start") summary.metric = line.value("save_best", "");
  const std::string split = line.value("split", "");
  if (split == "validation") {
    if (summary.steps > 0) AddBest(line, summary);  // not evaluation.eval_on_start
    summary.validation_loss = Number(line, "loss");
    AddPoint(summary, summary.validation_loss, summary.validation);
  } else if (split == "train") {
    summary.loss = Number(line, "mean_loss");
    AddPoint(summary, summary.loss, summary.curve);
    const double seconds = Number(line, "step_seconds").value_or(0);
    const auto samples = Number(line, "samples");
    if (samples && seconds > 0) speeds.push_back(*samples / seconds);
  }
}

}  // namespace

RunSummary ReadRunSummary(const std::string& metrics_path) {
  RunSummary summary;
  std::optional<double> begin;
  std::vector<double> speeds;
  std::ifstream file(metrics_path);
  for (std::string text; std::getline(file, text);) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object()) continue;
    if (const auto now = Number(line, "ts")) {
      if (!begin) begin = now;
      summary.seconds = *now - *begin;
    }
    ReadLine(line, summary, speeds);
  }
  if (!speeds.empty()) {
    const auto middle = speeds.begin() + static_cast<ptrdiff_t>(speeds.size() / 2);
    std::nth_element(speeds.begin(), middle, speeds.end());
    summary.speed = *middle;
  }
  return summary;
}

}  // namespace ddprun::launcher
