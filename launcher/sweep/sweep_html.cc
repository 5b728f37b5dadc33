// The page of a sweep: table and curves, with styles and script.
#include "base/line_chart.h"
#include "launcher/sweep/sweep_table.h"

namespace ddprun::launcher {

namespace {

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

// Returns a column's title in which lines may break between the words of a key.
std::string Title(std::string_view column) {
  std::string result;
  for (const char c : EscapeHtml(column)) {
    result += c;
    if (c == '.' || c == '_') result += "<wbr>";
  }
  return result;
}

ChartLine LineOf(size_t row, const std::vector<RunSummary::Point>& curve, bool dashed) {
  ChartLine line{.color = ChartColor(row), .dashed = dashed};
  for (const RunSummary::Point& point : curve) {
    line.points.push_back({static_cast<double>(point.step), point.loss});
  }
  return line;
}

std::string Curves(const std::vector<SweepRow>& rows) {
  std::vector<ChartLine> lines;
  bool validated = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    lines.push_back(LineOf(i, rows[i].summary.curve, /*dashed=*/false));
    lines.push_back(LineOf(i, rows[i].summary.validation, /*dashed=*/true));
    validated = validated || !rows[i].summary.validation.empty();
  }
  const std::string chart = LineChart("loss", {.title = "optimizer steps"}, lines);
  if (chart.empty()) return "";
  return "<h2>Loss</h2>\n<p>In the colours of the table: " +
         std::string(validated ? "training, and validation dashed." : "training.") +
         "</p>\n<div class=\"wide\">" + chart + "</div>\n";
}

}  // namespace

std::string HtmlTable(const std::string& title, const std::vector<SweepRow>& rows) {
  const std::vector<bool> best = BestRows(rows);
  const std::string metric = RankingMetric(rows);
  std::string page(kHead);
  page +=
      "<title>" + EscapeHtml(title) + "</title></head><body>\n<h1>" + EscapeHtml(title) + "</h1>\n";
  page += "<div class=\"wide\"><table><thead><tr>";
  for (const std::string& column : ColumnTitles(rows)) page += "<th>" + Title(column) + "</th>";
  page += "</tr></thead><tbody>\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const char* const kind =
        best[i] ? " class=\"best\"" : (rows[i].finished ? "" : " class=\"failed\"");
    page += "<tr" + std::string(kind) + ">";
    const std::vector<std::string> cells = Cells(rows[i], metric, FiveDigits);
    for (size_t column = 0; column < cells.size(); ++column) {
      const std::string mark =
          column == 0 ? "<i style=\"background:" + ChartColor(i) + "\"></i> " : std::string();
      page += "<td>" + mark + EscapeHtml(cells[column]) + "</td>";
    }
    page += "</tr>\n";
  }
  return page + "</tbody></table></div>\n" + Curves(rows) + std::string(kScript) +
         "</body></html>\n";
}

}  // namespace ddprun::launcher
