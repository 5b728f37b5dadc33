// The page of a sweep: table and curves, with styles and script.
#include <algorithm>
#include <array>
#include <cmath>

#include "launcher/sweep/sweep_table.h"

namespace ddprun::launcher {

namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 320;
constexpr double kLeft = 76;  // room for "-1.25e+05"
constexpr double kRight = 24;
constexpr double kTop = 12;
constexpr double kBottom = 44;
// Okabe and Ito's palette, which colour-blind readers can tell apart.
constexpr std::array<std::string_view, 7> kColors = {"#0072b2", "#e69f00", "#009e73", "#d55e00",
                                                     "#cc79a7", "#56b4e9", "#767676"};

constexpr std::string_view kHead = R"html(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em;
       color: #1b1b1b; background: #fff }
h1 { font-size: 1.4em }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .3em .6em; text-align: left; border-bottom: 1px solid #ddd; white-space: nowrap }
th { cursor: pointer; border-bottom: 2px solid #888; vertical-align: bottom; white-space: normal }
th:hover { background: #eee }
tr.best td { font-weight: 600; background: #e8f4ea }
tr.failed td { color: #a02020 }
td i { display: inline-block; width: .8em; height: .8em; border-radius: 2px }
@media (max-width: 40em) { body { margin: 1em auto } table { font-size: 12px } }
svg { width: 100%; min-width: 34em; max-width: 60em; height: auto }
svg text { font: 12px system-ui, sans-serif; fill: #555 }
svg line { stroke: #8884 }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #161616 }
  th, td { border-color: #444 } th:hover { background: #2a2a2a }
  tr.best td { background: #1d3322 } tr.failed td { color: #ff9a9a } svg text { fill: #aaa }
}
</style>
)html";

constexpr std::string_view kScript = R"html(<script>
document.querySelectorAll('th').forEach((head, column) => head.onclick = () => {
  const body = document.querySelector('tbody'), up = head.dataset.up !== '1';
  document.querySelectorAll('th').forEach(other => delete other.dataset.up);
  head.dataset.up = up ? '1' : '0';
  const text = row => row.cells[column].innerText;
  const order = (a, b) => {
    const x = text(a), y = text(b);
    if (x === '' || y === '') return (x === '') - (y === '');
    const both = !isNaN(x) && !isNaN(y);
    return (both ? x - y : x.localeCompare(y)) * (up ? 1 : -1);
  };
  [...body.rows].sort(order).forEach(row => body.append(row));
});
</script>
)html";

std::string Escaped(std::string_view text) {
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

// Returns a column's title in which lines may break between the words of a key.
std::string Title(std::string_view column) {
  std::string result;
  for (const char c : Escaped(column)) {
    result += c;
    if (c == '.' || c == '_') result += "<wbr>";
  }
  return result;
}

std::string ColorOf(size_t row) {
  return std::string(kColors[row % kColors.size()]);
}

// The ranges of the curves' axes.
struct Frame {
  int64_t last_step = 1;
  double least = INFINITY;
  double most = -INFINITY;

  void Hold(const std::vector<RunSummary::Point>& curve) {
    for (const RunSummary::Point& point : curve) {
      last_step = std::max(last_step, point.step);
      least = std::min(least, point.loss);
      most = std::max(most, point.loss);
    }
  }
  double X(double step) const {
    return kLeft + (kWidth - kLeft - kRight) * step / static_cast<double>(last_step);
  }
  double Y(double loss) const {
    const double range = most > least ? most - least : 1;
    return kTop + (kHeight - kBottom - kTop) * (1 - (loss - least) / range);
  }
};

std::string Text(double x, double y, std::string_view anchor, const std::string& text) {
  return "<text x=\"" + ShortNumber(x) + "\" y=\"" + ShortNumber(y) + "\" text-anchor=\"" +
         std::string(anchor) + "\">" + text + "</text>\n";
}

// Returns about four numbers in [least, most]: multiples of 1, 2 or 5 times a power of ten.
std::vector<double> Ticks(double least, double most) {
  if (!(most > least)) return {least};
  const double rough = (most - least) / 4;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double digit = rough / power;
  const double step = power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
  std::vector<double> ticks;
  for (auto i = std::llround(std::ceil(least / step)); static_cast<double>(i) * step <= most; ++i) {
    ticks.push_back(static_cast<double>(i) * step);
  }
  return ticks;
}

std::string Line(double x1, double y1, double x2, double y2) {
  return "<line x1=\"" + ShortNumber(x1) + "\" y1=\"" + ShortNumber(y1) + "\" x2=\"" +
         ShortNumber(x2) + "\" y2=\"" + ShortNumber(y2) + "\"/>\n";
}

std::string Axes(const Frame& frame) {
  std::string svg;
  const double bottom = kHeight - kBottom;
  for (const double loss : Ticks(frame.least, frame.most)) {
    svg += Line(kLeft, frame.Y(loss), kWidth - kRight, frame.Y(loss));
    svg += Text(kLeft - 8, frame.Y(loss) + 4, "end", ShortNumber(loss));
  }
  for (const double step : Ticks(0, static_cast<double>(frame.last_step))) {
    svg += Line(frame.X(step), bottom, frame.X(step), bottom + 5);
    svg += Text(frame.X(step), bottom + 19, "middle", std::to_string(std::llround(step)));
  }
  svg += Line(kLeft, bottom, kWidth - kRight, bottom);
  return svg + Text((kLeft + kWidth - kRight) / 2, kHeight - 5, "middle", "optimizer steps");
}

std::string Curve(const Frame& frame,
                  const std::vector<RunSummary::Point>& curve,
                  const std::string& look) {
  if (curve.empty()) return "";
  std::string points;
  for (const RunSummary::Point& point : curve) {
    points += ShortNumber(frame.X(static_cast<double>(point.step))) + "," +
              ShortNumber(frame.Y(point.loss)) + " ";
  }
  return "<polyline fill=\"none\" stroke-width=\"1.6\" " + look + " points=\"" + points + "\"/>\n";
}

std::string Curves(const std::vector<SweepRow>& rows) {
  Frame frame;
  bool validated = false;
  for (const SweepRow& row : rows) {
    frame.Hold(row.summary.curve);
    frame.Hold(row.summary.validation);
    validated = validated || !row.summary.validation.empty();
  }
  if (frame.most < frame.least) return "";
  std::string svg = "<h2>Loss</h2>\n<p>In the colours of the table: " +
                    std::string(validated ? "training, and validation dashed." : "training.") +
                    "</p>\n<div class=\"wide\"><svg viewBox=\"0 0 " + ShortNumber(kWidth) + " " +
                    ShortNumber(kHeight) + "\" role=\"img\" aria-label=\"loss\">\n" + Axes(frame);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string look = "stroke=\"" + ColorOf(i) + "\"";
    svg += Curve(frame, rows[i].summary.curve, look);
    svg += Curve(frame, rows[i].summary.validation, look + " stroke-dasharray=\"5 3\"");
  }
  return svg + "</svg></div>\n";
}

}  // namespace

std::string HtmlTable(const std::string& title, const std::vector<SweepRow>& rows) {
  const std::vector<bool> best = BestRows(rows);
  std::string page(kHead);
  page += "<title>" + Escaped(title) + "</title></head><body>\n<h1>" + Escaped(title) + "</h1>\n";
  page += "<div class=\"wide\"><table><thead><tr>";
  for (const std::string& column : ColumnTitles(rows)) page += "<th>" + Title(column) + "</th>";
  page += "</tr></thead><tbody>\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const char* const kind =
        best[i] ? " class=\"best\"" : (rows[i].finished ? "" : " class=\"failed\"");
    page += "<tr" + std::string(kind) + ">";
    const std::vector<std::string> cells = Cells(rows[i], ShortNumber);
    for (size_t column = 0; column < cells.size(); ++column) {
      const std::string mark =
          column == 0 ? "<i style=\"background:" + ColorOf(i) + "\"></i> " : std::string();
      page += "<td>" + mark + Escaped(cells[column]) + "</td>";
    }
    page += "</tr>\n";
  }
  return page + "</tbody></table></div>\n" + Curves(rows) + std::string(kScript) +
         "</body></html>\n";
}

}  // namespace ddprun::launcher
