#include "benchmarks/ddp_bench/table.h"

#include <algorithm>
#include <cstdio>

namespace ddprun::bench {

namespace {

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string TimeText(double seconds) {
  if (seconds < 1e-3) return Format("%.1f us", seconds * 1e6);
  if (seconds < 1) return Format("%.2f ms", seconds * 1e3);
  return Format("%.2f s", seconds);
}

std::string SizeText(double bytes) {
  if (bytes < 1024) return Format("%.0f B", bytes);
  if (bytes < 1024 * 1024) return Format("%.4g KiB", bytes / 1024);
  return Format("%.4g MiB", bytes / 1024 / 1024);
}

void PrintTable(const std::vector<std::vector<std::string>>& rows) {
  for (size_t row = 0; row < rows.size(); ++row) {
    std::string line = "|";
    std::string rule = "|";
    for (size_t column = 0; column < rows[row].size(); ++column) {
      line += " " + rows[row][column] + " |";
      rule += column == 0 ? " --- |" : " ---: |";
    }
    std::puts(line.c_str());
    if (row == 0) std::puts(rule.c_str());
  }
  std::fflush(stdout);
}

}  // namespace ddprun::bench
