// What a config's values are besides numbers, words and lists: how often or for how long, and
// objects that are not ours to read. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::trainer {

// "500 steps", "0.5 epochs", "30 min", "23:50:00".
enum class IntervalUnit { kSteps, kEpochs, kSeconds };
struct Interval {
  double amount = 0;  // 0: never, or no limit
  IntervalUnit unit = IntervalUnit::kSteps;
};

// nullopt for what is none: a number without a unit, a part of a step, a negative amount.
std::optional<Interval> ParseInterval(std::string_view text);

// As a number of optimizer steps, also a part of one. 0: never, or by the clock.
double StepsOf(const Interval& interval, int64_t steps_per_epoch);

// The shortest text that ParseInterval makes the same of.
std::string IntervalText(const Interval& interval);

// Passed on as it stands.
struct JsonText {
  std::string text = "{}";  // an object; keys sorted, ${NAME} replaced
};

}  // namespace ddprun::trainer
