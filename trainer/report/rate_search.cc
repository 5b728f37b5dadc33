#include "trainer/report/rate_search.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "trainer/report/format.h"

namespace ddprun::trainer {

namespace {

constexpr double kKept = 0.98;  // of the average, each step
constexpr double kDiverged = 4;
constexpr size_t kUnsteady = 10;

}  // namespace

std::vector<double> SmoothLosses(std::span<const TriedRate> tried) {
  std::vector<double> smooth;
  double average = 0;
  double weight = 0;
  for (const TriedRate& step : tried) {
    average = kKept * average + (1 - kKept) * step.loss;
    weight = kKept * weight + (1 - kKept);
    smooth.push_back(average / weight);
  }
  return smooth;
}

std::optional<FoundRate> FindRate(std::span<const TriedRate> tried) {
  std::vector<double> smooth = SmoothLosses(tried);
  double least = INFINITY;
  const auto diverged = std::ranges::find_if(smooth, [&least](double loss) {
    least = std::min(least, loss);
    return !(loss <= kDiverged * least);
  });
  smooth.erase(diverged, smooth.end());
  if (smooth.size() < kUnsteady + 3) return std::nullopt;
  FoundRate found{.least = kUnsteady, .last_good = smooth.size() - 1};
  double steepest = 0;
  for (size_t i = kUnsteady; i < smooth.size(); ++i) {
    if (smooth[i] < smooth[found.least]) found.least = i;
    if (i + 1 == smooth.size()) break;
    const double slope = (smooth[i + 1] - smooth[i - 1]) /
                         std::log(tried[i + 1].learning_rate / tried[i - 1].learning_rate);
    if (slope >= steepest) continue;
    steepest = slope;
    found.fastest = i;
  }
  if (steepest == 0) return std::nullopt;
  return found;
}

void RateSearch::OnStep(const StepReport& report, ReportTime /*now*/) {
  tried_.push_back({.learning_rate = report.learning_rate, .loss = report.loss});
}

void RateSearch::OnEnd(const RunEnd& /*end*/, ReportTime /*now*/) {
  const std::optional<FoundRate> found = FindRate(tried_);
  if (!found) {
    told_.OnNote("learning rate: none found. The loss of " + CountText(std::ssize(tried_), "step") +
                 " never falls while the learning rate rises; try more steps (run.max_steps) or "
                 "other ends (scheduler.range_test).");
    return;
  }
  const auto rate = [this](size_t place) { return Exponent(tried_[place].learning_rate); };
  const bool diverged = found->last_good + 1 < tried_.size();
  told_.OnNote(
      "learning rate: the loss falls fastest at " + rate(found->fastest) + ", is least at " +
      rate(found->least) +
      (diverged ? ", and diverges above " + rate(found->last_good) : ", and never diverges") +
      "; to train: --set optimizer.learning_rate=" + rate(found->fastest));
}

}  // namespace ddprun::trainer
