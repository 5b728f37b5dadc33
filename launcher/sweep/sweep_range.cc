#include "launcher/sweep/sweep_range.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace ddprun::launcher {

namespace {

// Reads a finite number that fills the text.
std::optional<double> NumberIn(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(number)) return std::nullopt;
  return number;
}

bool IsWhole(double number) {
  return std::trunc(number) == number && std::abs(number) <= 0x1p53;
}

std::string Whole(double number) {
  return std::to_string(static_cast<int64_t>(number));
}

}  // namespace

std::optional<SweepRange> SweepRange::In(const std::string& text) {
  const std::array<std::pair<std::string_view, Kind>, 3> kinds = {
      {{"uniform", Kind::kUniform},
       {"loguniform", Kind::kLogUniform},
       {"integers", Kind::kIntegers}}};
  for (const auto& [name, kind] : kinds) {
    const std::string begin = std::string(name) + "(";
    if (!text.starts_with(begin)) continue;
    SweepRange range;
    range.kind_ = kind;
    const size_t comma = text.find(',');
    const bool whole_text = text.ends_with(')') && comma != text.npos;
    const auto low = NumberIn(whole_text ? text.substr(begin.size(), comma - begin.size()) : "");
    const auto high = NumberIn(whole_text ? text.substr(comma + 1, text.size() - comma - 2) : "");
    if (!low || !high || *low >= *high) {
      range.problem_ = "needs two numbers, the smaller one first, as in " + begin + "1,8)";
    } else if (kind == Kind::kLogUniform && *low <= 0) {
      range.problem_ = "needs numbers above 0";
    } else if (kind == Kind::kIntegers && !(IsWhole(*low) && IsWhole(*high))) {
      range.problem_ = "needs whole numbers";
    } else {
      range.low_ = *low;
      range.high_ = *high;
    }
    return range;
  }
  return std::nullopt;
}

std::string SweepRange::At(double share) const {
  if (kind_ == Kind::kIntegers) return Whole(low_ + std::floor(share * (high_ - low_ + 1)));
  const double value = kind_ == Kind::kUniform
                           ? low_ + share * (high_ - low_)
                           : std::exp(std::log(low_) + share * (std::log(high_) - std::log(low_)));
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

}  // namespace ddprun::launcher
