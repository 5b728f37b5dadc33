#include "launcher/sweep/sweep_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/line_chart.h"
#include "base/metric_order.h"

namespace ddprun::launcher {

namespace {

constexpr size_t kGap = 2;

}  // namespace

std::string RankingMetric(const std::vector<SweepRow>& rows) {
  std::string metric;
  for (const SweepRow& row : rows) {
    if (!row.finished) continue;
    if (!row.summary.best || (!metric.empty() && row.summary.metric != metric)) return "";
    metric = row.summary.metric;
  }
  return metric;
}

std::vector<bool> BestRows(const std::vector<SweepRow>& rows) {
  const std::string metric = RankingMetric(rows);
  const bool validated = std::any_of(rows.begin(), rows.end(), [](const SweepRow& row) {
    return row.finished && row.summary.validation_loss;
  });
  std::vector<double> losses;
  for (const SweepRow& row : rows) {
    const RunSummary& summary = row.summary;
    const auto& loss = !metric.empty() ? summary.best
                       : validated     ? summary.validation_loss
                                       : summary.loss;
    const double sign = !metric.empty() && HigherIsBetter(metric) ? -1 : 1;
    losses.push_back(row.finished ? sign * loss.value_or(NAN) : NAN);
  }
  double least = INFINITY;
  double most = -INFINITY;
  for (const double loss : losses) {
    if (loss < least) least = loss;
    if (loss > most) most = loss;
  }
  const auto finished =
      std::count_if(rows.begin(), rows.end(), [](const SweepRow& row) { return row.finished; });
  const bool alike = finished > 1 && least == most;
  std::vector<bool> best;
  for (const double loss : losses) best.push_back(!alike && std::isfinite(loss) && loss == least);
  return best;
}

std::vector<std::string> ColumnTitles(const std::vector<SweepRow>& rows) {
  std::vector<std::string> titles;
  if (!rows.empty()) {
    for (const auto& [key, value] : rows.front().values) titles.push_back(key);
  }
  for (const char* title : {"steps", "loss", "validation"}) titles.emplace_back(title);
  const std::string metric = RankingMetric(rows);
  if (!metric.empty()) titles.push_back("best " + metric);
  for (const char* title : {"samples/s", "seconds", "status", "folder"}) {
    titles.emplace_back(title);
  }
  return titles;
}

std::vector<std::string> Cells(const SweepRow& row,
                               const std::string& metric,
                               std::string (*number)(double)) {
  const RunSummary& summary = row.summary;
  const auto text = [number](const std::optional<double>& value) {
    return value ? number(*value) : std::string();
  };
  std::vector<std::string> cells;
  for (const auto& [key, value] : row.values) cells.push_back(value);
  cells.push_back(summary.steps > 0 ? std::to_string(summary.steps) : "");
  cells.push_back(text(summary.loss));
  cells.push_back(text(summary.validation_loss));
  if (!metric.empty()) cells.push_back(text(summary.best));
  const double speed = summary.speed.value_or(0);
  cells.push_back(speed >= 100 ? std::to_string(std::llround(speed)) : text(summary.speed));
  cells.push_back(text(summary.seconds));
  cells.push_back(row.status);
  cells.push_back(row.folder);
  return cells;
}

std::string TerminalTable(const std::vector<SweepRow>& rows) {
  std::vector<std::vector<std::string>> lines = {ColumnTitles(rows)};
  const std::string metric = RankingMetric(rows);
  for (const SweepRow& row : rows) lines.push_back(Cells(row, metric, FiveDigits));
  // Without the folder, because a terminal is narrow and the folder's name repeats the row.
  for (auto& line : lines) line.pop_back();
  const std::vector<bool> best = BestRows(rows);
  std::vector<size_t> widths(lines.front().size());
  for (size_t column = 0; column < widths.size(); ++column) {
    bool known = false;
    for (size_t i = 0; i < lines.size(); ++i) {
      known = known || (i > 0 && !lines[i][column].empty());
      widths[column] = std::max(widths[column], lines[i][column].size());
    }
    // Hides an empty column, such as the validation loss of runs without validation.
    if (!known) widths[column] = 0;
  }
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string line = i > 0 && best[i - 1] ? "* " : "  ";
    for (size_t column = 0; column < widths.size(); ++column) {
      if (widths[column] == 0) continue;
      line += lines[i][column];
      line.append(widths[column] - lines[i][column].size() + kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string CsvTable(const std::vector<SweepRow>& rows) {
  const auto exact = [](double value) {
    if (!std::isfinite(value)) return FiveDigits(value);
    std::array<char, 64> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    return std::string(buffer.data(), end);
  };
  std::vector<std::vector<std::string>> lines = {ColumnTitles(rows)};
  const std::string metric = RankingMetric(rows);
  for (const SweepRow& row : rows) lines.push_back(Cells(row, metric, exact));
  std::string text;
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) text += (i == 0 ? "" : ",") + CsvCell(line[i]);
    text += "\r\n";
  }
  return text;
}

}  // namespace ddprun::launcher
