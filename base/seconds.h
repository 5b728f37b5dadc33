// Times as users write them.
#pragma once

#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>

namespace ddprun {

// Seconds, also fractions, from `least` to a year.
inline std::optional<std::chrono::milliseconds> ParseSeconds(std::string_view text, double least) {
  constexpr double kYearSeconds = 366 * 86400.0;
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, seconds);
  const bool in_range = seconds >= least && seconds <= kYearSeconds;
  if (problem != std::errc() || stop != end || !in_range) return std::nullopt;
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

}  // namespace ddprun
