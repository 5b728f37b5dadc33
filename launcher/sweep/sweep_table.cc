#include "launcher/sweep/sweep_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

namespace ddprun::launcher {

namespace {

constexpr size_t kGap = 2;

}  // namespace

std::optional<size_t> BestRow(const std::vector<SweepRow>& rows) {
  std::optional<size_t> best;
  double least = INFINITY;
  const bool validated = std::any_of(rows.begin(), rows.end(), [](const SweepRow& row) {
    return row.finished && row.summary.validation_loss;
  });
  for (size_t i = 0; i < rows.size(); ++i) {
    const RunSummary& summary = rows[i].summary;
    const double loss = (validated ? summary.validation_loss : summary.loss).value_or(INFINITY);
    if (!rows[i].finished || !(loss < least)) continue;
    least = loss;
    best = i;
  }
  return best;
}

std::string ShortNumber(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.5g", value);
  return buffer.data();
}

std::vector<std::string> ColumnTitles(const std::vector<SweepRow>& rows) {
  std::vector<std::string> titles;
  if (!rows.empty()) {
    for (const auto& [key, value] : rows.front().values) titles.push_back(key);
  }
  for (const char* title : {"steps", "loss", "validation", "seconds", "status", "folder"}) {
    titles.emplace_back(title);
  }
  return titles;
}

std::vector<std::string> Cells(const SweepRow& row, std::string (*number)(double)) {
  const RunSummary& summary = row.summary;
  const auto text = [number](const std::optional<double>& value) {
    return value ? number(*value) : std::string();
  };
  std::vector<std::string> cells;
  for (const auto& [key, value] : row.values) cells.push_back(value);
  cells.push_back(summary.steps > 0 ? std::to_string(summary.steps) : "");
  cells.push_back(text(summary.loss));
  cells.push_back(text(summary.validation_loss));
  cells.push_back(text(summary.seconds));
  cells.push_back(row.status);
  cells.push_back(row.folder);
  return cells;
}

std::string TerminalTable(const std::vector<SweepRow>& rows) {
  std::vector<std::vector<std::string>> lines = {ColumnTitles(rows)};
  for (const SweepRow& row : rows) lines.push_back(Cells(row, ShortNumber));
  // A terminal is narrow: the folder's name says what the row says.
  for (auto& line : lines) line.pop_back();
  const std::optional<size_t> best = BestRow(rows);
  std::vector<size_t> widths(lines.front().size());
  for (size_t column = 0; column < widths.size(); ++column) {
    bool known = false;
    for (size_t i = 0; i < lines.size(); ++i) {
      known = known || (i > 0 && !lines[i][column].empty());
      widths[column] = std::max(widths[column], lines[i][column].size());
    }
    // Nothing to say, as validation losses without validation.
    if (!known) widths[column] = 0;
  }
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string line = best && i == *best + 1 ? "* " : "  ";
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
    if (!std::isfinite(value)) return ShortNumber(value);
    std::array<char, 64> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    return std::string(buffer.data(), end);
  };
  std::vector<std::vector<std::string>> lines = {ColumnTitles(rows)};
  for (const SweepRow& row : rows) lines.push_back(Cells(row, exact));
  std::string text;
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) text += (i == 0 ? "" : ",") + CsvCell(line[i]);
    text += "\r\n";
  }
  return text;
}

}  // namespace ddprun::launcher
