#include "trainer/config/value_types.h"

#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/env.h"
#include "base/text.h"
#include "trainer/config/foreign_names.h"
#include "trainer/config/slot.h"

namespace ddprun::trainer {

namespace {

struct UnitWord {
  std::string_view names;  // separated by blanks; IntervalText() uses the first
  IntervalUnit unit;
  double amount;  // in steps, epochs or seconds
};

// From large to small, because IntervalText() takes the first unit that gives a whole number.
constexpr std::array<UnitWord, 6> kUnits = {
    UnitWord{"days day d", IntervalUnit::kSeconds, 86400},
    UnitWord{"h hours hour hr hrs", IntervalUnit::kSeconds, 3600},
    UnitWord{"min minutes minute mins m", IntervalUnit::kSeconds, 60},
    UnitWord{"s seconds second sec secs", IntervalUnit::kSeconds, 1},
    UnitWord{"epochs epoch ep", IntervalUnit::kEpochs, 1},
    UnitWord{"steps step", IntervalUnit::kSteps, 1},
};

// Parses "23:50:00", or "1:23:50:00" with days.
std::optional<Interval> ParseClock(std::string_view text) {
  std::vector<double> fields;
  while (true) {
    const size_t colon = text.find(':');
    const auto field = ParseInt(text.substr(0, colon));
    if (!field || *field < 0) return std::nullopt;
    fields.push_back(static_cast<double>(*field));
    if (colon == text.npos) break;
    text.remove_prefix(colon + 1);
  }
  if (fields.size() == 3) fields.insert(fields.begin(), 0);
  if (fields.size() != 4) return std::nullopt;
  return Interval{((fields[0] * 24 + fields[1]) * 60 + fields[2]) * 60 + fields[3],
                  IntervalUnit::kSeconds};
}

}  // namespace

std::optional<Interval> ParseInterval(std::string_view text) {
  if (text.find(':') != text.npos) return ParseClock(text);
  double amount = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, amount);
  if (parsed.ec != std::errc() || !std::isfinite(amount) || amount < 0) return std::nullopt;
  std::string_view word(parsed.ptr, static_cast<size_t>(end - parsed.ptr));
  while (word.starts_with(' ')) word.remove_prefix(1);
  for (const UnitWord& unit : kUnits) {
    if (word.empty() || !HasName(unit.names, word)) continue;
    if (unit.unit == IntervalUnit::kSteps && std::trunc(amount) != amount) return std::nullopt;
    return Interval{amount * unit.amount, unit.unit};
  }
  return std::nullopt;
}

double StepsOf(const Interval& interval, int64_t steps_per_epoch) {
  if (interval.unit == IntervalUnit::kSeconds) return 0;
  const bool epochs = interval.unit == IntervalUnit::kEpochs;
  return interval.amount * static_cast<double>(epochs ? steps_per_epoch : 1);
}

std::string IntervalText(const Interval& interval) {
  for (const UnitWord& unit : kUnits) {
    double amount = interval.amount / unit.amount;
    if (unit.unit != interval.unit || (unit.amount > 1 && std::trunc(amount) != amount)) continue;
    return SlotText(&amount) + " " + std::string(unit.names.substr(0, unit.names.find(' ')));
  }
  return "0";
}

}  // namespace ddprun::trainer
