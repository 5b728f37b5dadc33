#include "trainer/report/rank_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "trainer/report/format.h"

namespace ddprun::trainer {

namespace {

std::string PadLeft(std::string text, size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

std::string StepText(int64_t step, int64_t max_steps) {
  const std::string last = std::to_string(max_steps);
  return "step " + PadLeft(std::to_string(step), last.size()) + "/" + last;
}

}  // namespace

std::string FormatLogLine(const LogLine& line) {
  const StepReport& step = line.step;
  std::string text = StepText(step.step, step.max_steps);
  text += "  loss " + PadLeft(LossText(line.mean_loss), 7);
  text += "  lr " + Exponent(step.learning_rate);
  text += "  grad norm " + PadLeft(ShortNumber(step.grad_norm), 5);
  text += "  " + PadLeft(ShortNumber(line.per_second), 5);
  text += line.rate_is_tokens ? " tokens/s" : " samples/s";
  if (step.step_seconds > 0) {
    const double share = std::min(step.exposed_comm_seconds / step.step_seconds, 1.0);
    text += "  exposed comm " + PadLeft(std::to_string(std::lround(100 * share)), 2) + "%";
  }
  if (line.seconds_left >= 0) text += "  left " + Duration(line.seconds_left);
  return text;
}

std::string FormatEvalLine(const EvalReport& report, int64_t max_steps) {
  std::string text = StepText(report.step, max_steps);
  text += "  validation loss " + LossText(report.loss);
  for (const auto& [name, value] : report.metrics) text += "  " + name + " " + LossText(value);
  text += "  (" + std::to_string(report.samples) + " samples in " + Duration(report.seconds) + ")";
  return text;
}

std::string FormatBucketSizesLine(const BucketSizesReport& report) {
  const auto number = [](const char* format, double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), format, value);
    return std::string(text.data());
  };
  const BucketSizesReport::Trial& best = report.trials.at(report.chosen);
  const std::string cap = number("%g", best.bucket_cap_mb);
  const std::string first = number("%g", best.first_bucket_mb);
  return "bucket sizes: the fastest of " + std::to_string(report.trials.size()) +
         " is bucket_cap_mb " + cap + ", first_bucket_mb " + first + ": " +
         number("%.2f ms", best.seconds * 1e3) + " against " +
         number("%.2f ms", report.trials.at(0).seconds * 1e3) +
         " with the default; keep it: --set strategy.bucket_cap_mb=" + cap +
         " --set strategy.first_bucket_mb=" + first;
}

}  // namespace ddprun::trainer
