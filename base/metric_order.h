// Which of two values of a metric is the better one.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace ddprun {

// Returns true for a plugin's own metric, unless its name ends with "loss" or "error".
constexpr bool HigherIsBetter(std::string_view metric) {
  constexpr std::array<std::string_view, 4> kErrors = {"perplexity", "mse", "rmse", "mae"};
  return std::ranges::find(kErrors, metric) == kErrors.end() && !metric.ends_with("loss") &&
         !metric.ends_with("error");
}

}  // namespace ddprun
