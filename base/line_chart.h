// Charts of lines as SVG, for pages that load no other file. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct ChartPoint {
  double x = 0;
  double y = 0;  // if it is not finite, the line has a gap here
};

struct ChartLine {
  std::string label = {};  // any text
  std::string color = {};
  bool dashed = false;
  std::vector<ChartPoint> points = {};  // x grows
};

struct ChartAxis {
  std::string_view title = {};
  bool logarithmic = false;  // all x are above 0; ticks are powers of ten
};

// Returns an <svg> with axes. Each line is a <path> that has its values as data-x and data-y and
// its label as data-label, for a script. Returns "" if no point is finite.
std::string LineChart(std::string_view title,
                      const ChartAxis& x_axis,
                      const std::vector<ChartLine>& lines);

// Returns at most about `most` of the points: the first, the last, and of each stretch the least,
// the greatest and one that is not finite.
std::vector<ChartPoint> ThinPoints(const std::vector<ChartPoint>& points, size_t most);

// Returns the color of the line with this number. Readers with any color vision can tell seven
// lines apart.
std::string ChartColor(size_t number);

// Returns about four numbers in [least, most]: multiples of 1, 2 or 5 times a power of ten.
std::vector<double> ChartTicks(double least, double most);

// Returns `text` for HTML, also for an attribute's value.
std::string EscapeHtml(std::string_view text);

// Returns `value` with five digits.
std::string FiveDigits(double value);

}  // namespace ddprun
