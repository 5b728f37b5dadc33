// The page of a sweep: table and curves, styles and script inside.
#include <algorithm>
#include <array>
#include <cmath>

#include "launcher/sweep/sweep_table.h"

namespace ddprun::launcher {

namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 300;
constexpr double kLeft = 60;
constexpr double kBottom = 24;
// Told apart by people who do not see all colours (Okabe and Ito's palette).
constexpr std::array<std::string_view, 7> kColors = {"#0072b2", "#e69f00", "#009e73", "#d55e00",
                                                     "#cc79a7", "#56b4e9", "#767676"};

constexpr std::string_view kHead = R"html(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 64em; padding: 0 1em;
       color: #1b1b1b; background: #fff }
h1 { font-size: 1.4em }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .3em .8em; text-align: left; border-bottom: 1px solid #ddd; white-space: nowrap }
th { cursor: pointer; border-bottom: 2px solid #888 }
th:hover { background: #eee }
tr.best td { font-weight: 600; background: #e8f4ea }
tr.failed td { color: #a02020 }
td i { display: inline-block; width: .8em; height: .8em; border-radius: 2px }
svg { width: 100%; height: auto }
svg text { font: 12px system-ui, sans-serif; fill: #555 }
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

std::string ColorOf(size_t row) {
  return std::string(kColors[row % kColors.size()]);
}

// Where the curves lie.
struct Frame {
  int64_t last_step = 1;
  double least = INFINITY;
  double most = -INFINITY;

  double X(int64_t step) const {
    return kLeft + (kWidth - kLeft) * static_cast<double>(step) / static_cast<double>(last_step);
  }
  double Y(double loss) const {
    const double range = most > least ? most - least : 1;
    return 8 + (kHeight - kBottom - 8) * (1 - (loss - least) / range);
  }
};

std::string Text(double x, double y, std::string_view anchor, const std::string& text) {
  return "<text x=\"" + ShortNumber(x) + "\" y=\"" + ShortNumber(y) + "\" text-anchor=\"" +
         std::string(anchor) + "\">" + text + "</text>\n";
}

std::string Curves(const std::vector<SweepRow>& rows) {
  Frame frame;
  for (const SweepRow& row : rows) {
    for (const RunSummary::Point& point : row.summary.curve) {
      frame.last_step = std::max(frame.last_step, point.step);
      frame.least = std::min(frame.least, point.loss);
      frame.most = std::max(frame.most, point.loss);
    }
  }
  if (frame.most < frame.least) return "";
  std::string svg = "<h2>Training loss</h2>\n<svg viewBox=\"0 0 " + ShortNumber(kWidth) + " " +
                    ShortNumber(kHeight) + "\" role=\"img\" aria-label=\"training loss\">\n";
  svg += Text(kLeft - 6, frame.Y(frame.most) + 4, "end", ShortNumber(frame.most));
  svg += Text(kLeft - 6, frame.Y(frame.least) + 4, "end", ShortNumber(frame.least));
  svg += Text(kLeft, kHeight - 6, "start", "step 0");
  svg += Text(kWidth, kHeight - 6, "end", std::to_string(frame.last_step));
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string points;
    for (const RunSummary::Point& point : rows[i].summary.curve) {
      points += ShortNumber(frame.X(point.step)) + "," + ShortNumber(frame.Y(point.loss)) + " ";
    }
    svg += "<polyline fill=\"none\" stroke-width=\"1.6\" stroke=\"" + ColorOf(i) + "\" points=\"" +
           points + "\"/>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace

std::string HtmlTable(const std::string& title, const std::vector<SweepRow>& rows) {
  const std::optional<size_t> best = BestRow(rows);
  std::string page(kHead);
  page += "<title>" + Escaped(title) + "</title></head><body>\n<h1>" + Escaped(title) + "</h1>\n";
  page += "<div class=\"wide\"><table><thead><tr>";
  for (const std::string& column : ColumnTitles(rows)) page += "<th>" + Escaped(column) + "</th>";
  page += "</tr></thead><tbody>\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const char* const kind =
        best == i ? " class=\"best\"" : (rows[i].finished ? "" : " class=\"failed\"");
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
