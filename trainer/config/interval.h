// How a config says how often, or for how long: "500 steps", "0.5 epochs", "30 min", "23:50:00".
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trainer/config/training_config.h"

namespace ddprun::trainer {

// nullopt for what is none: a number without a unit, a part of a step, a negative amount.
std::optional<Interval> ParseInterval(std::string_view text);

// The shortest text that ParseInterval makes the same of.
std::string IntervalText(const Interval& interval);

}  // namespace ddprun::trainer
