#include "base/line_chart.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <utility>

namespace ddprun {

namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 320;
constexpr double kLeft = 76;  // room for "-1.25e+05"
constexpr double kRight = 24;
constexpr double kTop = 12;
constexpr double kBottom = 44;
// Okabe and Ito's palette.
constexpr std::array<std::string_view, 7> kColors = {"#0072b2", "#e69f00", "#009e73", "#d55e00",
                                                     "#cc79a7", "#56b4e9", "#767676"};

// The ranges of the axes.
struct Frame {
  bool logarithmic = false;
  double first = 0;  // as Place() gives them
  double last = 1;
  double least = INFINITY;
  double most = -INFINITY;

  void Hold(const std::vector<ChartPoint>& points) {
    for (const ChartPoint& point : points) {
      if (!std::isfinite(point.y)) continue;
      const double place = Place(point.x);
      // A logarithmic axis begins at the first point, others at 0.
      if (logarithmic && most < least) first = last = place;
      first = std::min(first, place);
      last = std::max(last, place);
      least = std::min(least, point.y);
      most = std::max(most, point.y);
    }
  }
  double Place(double x) const { return logarithmic ? std::log10(x) : x; }
  double X(double x) const {
    const double share = last > first ? (Place(x) - first) / (last - first) : 0.5;
    return kLeft + (kWidth - kLeft - kRight) * share;
  }
  double Y(double y) const {
    // A line of equal values runs through the middle.
    const double share = most > least ? (y - least) / (most - least) : 0.5;
    return kTop + (kHeight - kBottom - kTop) * (1 - share);
  }
};

// Returns the shortest text that reads as the same number; "nan", "inf" or "-inf".
std::string AllDigits(double value) {
  std::array<char, 32> buffer{};
  char* const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string Text(double x, double y, std::string_view anchor, const std::string& text) {
  return "<text x=\"" + FiveDigits(x) + "\" y=\"" + FiveDigits(y) + "\" text-anchor=\"" +
         std::string(anchor) + "\">" + text + "</text>\n";
}

std::string Line(double x1, double y1, double x2, double y2) {
  return "<line x1=\"" + FiveDigits(x1) + "\" y1=\"" + FiveDigits(y1) + "\" x2=\"" +
         FiveDigits(x2) + "\" y2=\"" + FiveDigits(y2) + "\"/>\n";
}

// Returns FiveDigits(), but no exponent for a whole number below ten million.
std::string TickText(double value) {
  const bool whole = std::abs(value) < 1e7 && value == std::round(value);
  return whole ? std::to_string(std::llround(value)) : FiveDigits(value);
}

// Returns the x of the ticks with their texts.
std::vector<std::pair<double, std::string>> XTicks(const Frame& frame) {
  std::vector<std::pair<double, std::string>> ticks;
  if (!frame.logarithmic) {
    for (const double x : ChartTicks(0, frame.last)) {
      const bool whole = x == std::round(x);  // steps, without an exponent
      ticks.emplace_back(x, whole ? std::to_string(std::llround(x)) : FiveDigits(x));
    }
    return ticks;
  }
  const auto most = static_cast<int>(std::floor(frame.last));
  for (auto power = static_cast<int>(std::ceil(frame.first)); power <= most; ++power) {
    ticks.emplace_back(std::pow(10, power), "1e" + std::to_string(power));
  }
  return ticks;
}

std::string Axes(const Frame& frame, std::string_view x_title) {
  std::string svg;
  const double bottom = kHeight - kBottom;
  for (const double y : ChartTicks(frame.least, frame.most)) {
    svg += Line(kLeft, frame.Y(y), kWidth - kRight, frame.Y(y));
    svg += Text(kLeft - 8, frame.Y(y) + 4, "end", TickText(y));
  }
  for (const auto& [x, text] : XTicks(frame)) {
    svg += Line(frame.X(x), bottom, frame.X(x), bottom + 5);
    svg += Text(frame.X(x), bottom + 19, "middle", text);
  }
  svg += Line(kLeft, bottom, kWidth - kRight, bottom);
  return svg + Text((kLeft + kWidth - kRight) / 2, kHeight - 5, "middle", std::string(x_title));
}

std::string Curve(const Frame& frame, const ChartLine& line) {
  std::string path;
  std::string xs;
  std::string ys;
  bool gap = true;
  for (const ChartPoint& point : line.points) {
    xs += (xs.empty() ? "" : " ") + AllDigits(point.x);
    ys += (ys.empty() ? "" : " ") + AllDigits(point.y);
    if (std::isfinite(point.y)) {
      path += (gap ? "M" : "L") + FiveDigits(frame.X(point.x)) + "," +
              FiveDigits(frame.Y(point.y)) + (gap ? "h0" : "");  // h0 shows a point without line
    }
    gap = !std::isfinite(point.y);
  }
  return "<path fill=\"none\" stroke-width=\"1.6\" stroke-linecap=\"round\" stroke=\"" +
         line.color + "\"" + (line.dashed ? " stroke-dasharray=\"5 3\"" : "") + " data-label=\"" +
         EscapeHtml(line.label) + "\" data-x=\"" + xs + "\" data-y=\"" + ys + "\" d=\"" + path +
         "\"/>\n";
}

}  // namespace

std::string LineChart(std::string_view title,
                      const ChartAxis& x_axis,
                      const std::vector<ChartLine>& lines) {
  Frame frame{.logarithmic = x_axis.logarithmic};
  for (const ChartLine& line : lines) frame.Hold(line.points);
  if (frame.most < frame.least) return "";
  std::string svg =
      "<svg viewBox=\"0 0 " + FiveDigits(kWidth) + " " + FiveDigits(kHeight) +
      "\" role=\"img\" aria-label=\"" + EscapeHtml(title) + "\" data-left=\"" + FiveDigits(kLeft) +
      "\" data-right=\"" + FiveDigits(kWidth - kRight) + "\" data-first=\"" +
      AllDigits(frame.first) + "\" data-last=\"" + AllDigits(frame.last) + "\"" +
      (x_axis.logarithmic ? " data-logarithmic=\"1\"" : "") + ">\n" + Axes(frame, x_axis.title);
  for (const ChartLine& line : lines) {
    if (!line.points.empty()) svg += Curve(frame, line);
  }
  return svg + "</svg>";
}

std::vector<ChartPoint> ThinPoints(const std::vector<ChartPoint>& points, size_t most) {
  if (points.size() <= most) return points;
  const size_t stretches = std::max<size_t>(most / 3, 1);
  std::vector<size_t> kept = {0, points.size() - 1};
  for (size_t i = 0; i < stretches; ++i) {
    size_t begin = points.size() * i / stretches;
    const size_t end = points.size() * (i + 1) / stretches;
    size_t least = end;
    size_t greatest = end;
    size_t broken = end;
    for (; begin < end; ++begin) {
      const double y = points[begin].y;
      if (!std::isfinite(y)) {
        broken = std::min(broken, begin);
        continue;
      }
      if (least == end || y < points[least].y) least = begin;
      if (greatest == end || y > points[greatest].y) greatest = begin;
    }
    for (const size_t at : {least, greatest, broken}) {
      if (at < end) kept.push_back(at);
    }
  }
  std::ranges::sort(kept);
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  std::vector<ChartPoint> thinned;
  for (const size_t at : kept) thinned.push_back(points[at]);
  return thinned;
}

std::vector<double> ChartTicks(double least, double most) {
  const double rough = (most - least) / 4;
  if (!(rough > 0) || !std::isfinite(rough)) return {least};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double digit = rough / power;
  const double step = power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
  std::vector<double> ticks;
  const double first = std::ceil(least / step);
  for (int i = 0; i < 10 && (first + i) * step <= most; ++i) ticks.push_back((first + i) * step);
  return ticks;
}

std::string ChartColor(size_t number) {
  return std::string(kColors[number % kColors.size()]);
}

std::string EscapeHtml(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '&') {
      result += "&amp;";
    } else if (c == '"') {
      result += "&quot;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string FiveDigits(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.5g", value);
  return buffer.data();
}

}  // namespace ddprun
