#include "trainer/report/rate_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "base/text.h"
#include "trainer/report/format.h"

namespace ddprun::trainer {

namespace {

constexpr double kDiverged = 4;
constexpr size_t kFewest = 10;           // steps
constexpr std::ptrdiff_t kOutliers = 2;  // the median is of so many steps on each side

// Calls use(i, values around i): so many on each side. Beyond an end, its value is repeated.
template <typename Use>
void ForEachWindow(const std::vector<double>& values, std::ptrdiff_t side, const Use& use) {
  std::vector<double> window(2 * side + 1);
  for (std::ptrdiff_t i = 0; i < std::ssize(values); ++i) {
    for (std::ptrdiff_t k = -side; k <= side; ++k) {
      window[k + side] = values[std::clamp<std::ptrdiff_t>(i + k, 0, std::ssize(values) - 1)];
    }
    use(i, window);
  }
}

std::vector<double> WithoutOutliers(std::span<const TriedRate> tried) {
  std::vector<double> losses;
  for (const TriedRate& step : tried) losses.push_back(step.loss);
  std::vector<double> medians(losses.size());
  ForEachWindow(losses, kOutliers, [&medians](std::ptrdiff_t i, std::vector<double>& window) {
    std::ranges::nth_element(window, window.begin() + kOutliers);
    medians[i] = window[kOutliers];
  });
  return medians;
}

// Returns how many steps come before the divergence.
size_t CountGood(std::span<const TriedRate> tried) {
  const auto broken =
      std::ranges::find_if(tried, [](const TriedRate& step) { return !std::isfinite(step.loss); });
  const std::vector<double> losses = WithoutOutliers({tried.begin(), broken});
  double least = INFINITY;
  const auto diverged = std::ranges::find_if(losses, [&least](double loss) {
    least = std::min(least, loss);
    return loss > kDiverged * least;
  });
  return diverged - losses.begin();
}

}  // namespace

std::vector<double> SmoothLosses(std::span<const TriedRate> tried) {
  const std::ptrdiff_t side = std::max<std::ptrdiff_t>(1, std::ssize(tried) / 40);
  const std::vector<double> losses = WithoutOutliers(tried);
  std::vector<double> means(losses.size());
  ForEachWindow(losses, side, [&means](std::ptrdiff_t i, const std::vector<double>& window) {
    means[i] =
        std::accumulate(window.begin(), window.end(), 0.0) / static_cast<double>(window.size());
  });
  return means;
}

std::optional<FoundRate> FindRate(std::span<const TriedRate> tried) {
  const size_t good = CountGood(tried);
  if (good < kFewest) return std::nullopt;
  const std::vector<double> smooth = SmoothLosses(tried.first(good));
  const auto least = std::ranges::min_element(smooth);
  FoundRate found{.least = static_cast<size_t>(least - smooth.begin()), .last_good = good - 1};
  double steepest = 0;
  for (size_t i = 1; i + 1 < good; ++i) {
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
  if (tried_.empty()) first_step_ = report.step;
  tried_.push_back({.learning_rate = report.learning_rate, .loss = report.loss});
}

void RateSearch::OnEnd(const RunEnd& end, ReportTime /*now*/) {
  if (first_step_ > 1) {
    told_.OnNote(
        "learning rate: none is recommended, because the test was interrupted: only the "
        "steps from " +
        std::to_string(first_step_) + " on are known here. Start it anew.");
    return;
  }
  const std::optional<FoundRate> found = FindRate(tried_);
  if (!found && end.reason != "finished") return;
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
