// Tables of a sweep's runs for a terminal, a spreadsheet and a browser. All functions are pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/sweep/sweep_run.h"

namespace ddprun::launcher {

struct SweepRow {
  std::vector<std::pair<std::string, std::string>> values;  // key, value; the same keys in all rows
  std::string status;                                       // "finished", "exit code 3", ...
  bool finished = false;
  RunSummary summary;
  std::string folder;  // "" means none
};

// Returns aligned columns, without folders and empty columns. The best runs begin with "*".
std::string TerminalTable(const std::vector<SweepRow>& rows);

// Returns a table as in RFC 4180, with all digits; the last column is the folder.
std::string CsvTable(const std::vector<SweepRow>& rows);
// Returns `text` as a cell of CsvTable().
std::string CsvCell(const std::string& text);

// Returns a page that loads no other file: a table that sorts at a click, and the curves of losses.
// `title` names what was swept.
std::string HtmlTable(const std::string& title, const std::vector<SweepRow>& rows);

// Returns the metric of checkpoint.save_best by which all finished runs have chosen their best
// step, or "" if there is none or if they differ.
std::string RankingMetric(const std::vector<SweepRow>& rows);

// Returns for each row whether it is finished and has the best value of RankingMetric(); without
// that metric the least validation loss, or the least loss if no run was validated. If all finished
// rows are equal, as in a sweep for speed, none is best.
std::vector<bool> BestRows(const std::vector<SweepRow>& rows);

std::vector<std::string> ColumnTitles(const std::vector<SweepRow>& rows);
// Returns a text for each title; "" means unknown. `metric` is RankingMetric().
std::vector<std::string> Cells(const SweepRow& row,
                               const std::string& metric,
                               std::string (*number)(double));

}  // namespace ddprun::launcher
