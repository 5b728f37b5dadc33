#include "trainer/report/rate_chart.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/line_chart.h"
#include "trainer/report/format.h"
#include "trainer/report/rate_search.h"

namespace ddprun::trainer {

namespace {

const RunHistory::Curve* CurveOf(const RunHistory& run, const char* title) {
  const auto curve = std::ranges::find(run.training, title, &RunHistory::Curve::title);
  return curve == run.training.end() ? nullptr : &*curve;
}

// Returns the steps that have both numbers.
std::vector<TriedRate> TriedIn(const RunHistory& run) {
  std::vector<TriedRate> tried;
  const RunHistory::Curve* const rates = CurveOf(run, "learning rate");
  const RunHistory::Curve* const losses = CurveOf(run, "loss");
  if (rates == nullptr || losses == nullptr) return tried;
  auto loss = losses->points.begin();
  for (const ChartPoint& rate : rates->points) {
    while (loss != losses->points.end() && loss->x < rate.x) ++loss;
    if (loss == losses->points.end()) break;
    if (loss->x == rate.x && rate.y > 0) tried.push_back({rate.y, loss->y});
  }
  return tried;
}

}  // namespace

std::string RateChart(const RunHistory& run) {
  const auto range = run.config.find("scheduler.range_test");
  if (range == run.config.end() || range->second == "[]") return "";
  std::vector<TriedRate> tried = TriedIn(run);
  const std::optional<FoundRate> found = FindRate(tried);
  if (found) tried.resize(found->last_good + 1);
  ChartLine each{.label = "loss", .color = ChartColor(5)};
  ChartLine smooth{.label = "smoothed", .color = ChartColor(0)};
  const std::vector<double> smoothed = SmoothLosses(tried);
  for (size_t i = 0; i < tried.size(); ++i) {
    each.points.push_back({tried[i].learning_rate, tried[i].loss});
    smooth.points.push_back({tried[i].learning_rate, smoothed[i]});
  }
  const std::string chart = LineChart(
      "loss by learning rate", {.title = "learning rate", .logarithmic = true}, {each, smooth});
  if (chart.empty()) return "";
  std::string caption = "loss of each step, and smoothed (dark)";
  if (found) {
    caption += "; falls fastest at " + Exponent(tried[found->fastest].learning_rate) +
               ", is least at " + Exponent(tried[found->least].learning_rate);
  }
  return "<figure><h3>loss by learning rate</h3>" + chart + "<figcaption>" + caption +
         "</figcaption></figure>\n";
}

}  // namespace ddprun::trainer
