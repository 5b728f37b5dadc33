// Types of a config's values: intervals, and objects that ddprun passes on. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::trainer {

// "500 steps", "0.5 epochs", "30 min", "23:50:00".
enum class IntervalUnit { kSteps, kEpochs, kSeconds };
struct Interval {
  double amount = 0;  // 0 means never, or no limit
  IntervalUnit unit = IntervalUnit::kSteps;
};

// Returns nullopt for a number without unit, a part of a step, a negative amount or other text.
std::optional<Interval> ParseInterval(std::string_view text);

// Returns the number of optimizer steps, which may be fractional; 0 means never, or a time.
double StepsOf(const Interval& interval, int64_t steps_per_epoch);

// Returns a text that ParseInterval() reads to an equal Interval, in the largest unit of time that
// gives a whole number: "30 min".
std::string IntervalText(const Interval& interval);

// An object that is passed on unchanged.
struct JsonText {
  std::string text = "{}";  // an object; keys sorted, ${NAME} replaced
};

}  // namespace ddprun::trainer
