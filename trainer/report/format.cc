#include "trainer/report/format.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace ddprun::trainer {

namespace {

template <typename... Values>
std::string Print(const char* format, Values... values) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, values...);
  return buffer.data();
}

}  // namespace

std::string ShortNumber(double value) {
  if (std::isnan(value)) return "nan";  // its sign says nothing
  if (!std::isfinite(value)) return Print("%g", value);
  static constexpr std::array<const char*, 5> kSuffixes = {"", "k", "M", "G", "T"};
  size_t suffix = 0;
  // 999.5 would round to "1000".
  while (std::abs(value) >= 999.5 && suffix + 1 < kSuffixes.size()) {
    value /= 1000;
    ++suffix;
  }
  const double size = std::abs(value);
  const int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return Print("%.*f%s", decimals, value, kSuffixes[suffix]);
}

std::string ByteText(double bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  // 1023.5 would round to "1024".
  while (bytes >= 1023.5 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return Print("%.*f %s", unit > 0 && bytes < 9.995 ? 2 : 0, bytes, kUnits[unit]);
}

std::string Duration(double seconds) {
  constexpr double kLongest = 1e9;  // 31 years
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kLongest) return "?";
  const auto total = static_cast<long>(std::lround(seconds));
  const long days = total / 86400;
  const long hours = total / 3600 % 24;
  const long minutes = total / 60 % 60;
  if (days > 0) return Print("%ldd %02ld:%02ld:%02ld", days, hours, minutes, total % 60);
  if (hours > 0) return Print("%ld:%02ld:%02ld", hours, minutes, total % 60);
  return Print("%ld:%02ld", minutes, total % 60);
}

std::string LossText(double value) {
  const double size = std::abs(value);
  if (std::isnan(value)) return "nan";  // its sign says nothing
  if (!std::isfinite(value)) return Print("%g", value);
  if (value != 0 && (size < 0.01 || size >= 1e5)) return Print("%.3e", value);
  return Print("%.4f", value);
}

std::string Exponent(double value) {
  return Print("%.2e", value);
}

}  // namespace ddprun::trainer
