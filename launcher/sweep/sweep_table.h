// Pure: the runs of a sweep side by side, for a terminal, a spreadsheet and a browser.
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
  std::string folder;  // empty: it has none
};

// Aligned columns, without folders and what no run has; the best runs have a * in front.
std::string TerminalTable(const std::vector<SweepRow>& rows);

// RFC 4180, numbers in full; folders last.
std::string CsvTable(const std::vector<SweepRow>& rows);
// `text` as a cell of it.
std::string CsvCell(const std::string& text);

// One file without anything from elsewhere: the table, which sorts at a click, and the losses of
// all runs as curves. `title`: what was swept.
std::string HtmlTable(const std::string& title, const std::vector<SweepRow>& rows);

// For each row whether it is finished with the least validation loss, or the least loss when none
// was validated. None is where all that have finished are equal, as in a sweep for speed.
std::vector<bool> BestRows(const std::vector<SweepRow>& rows);

// Five digits.
std::string ShortNumber(double value);

std::vector<std::string> ColumnTitles(const std::vector<SweepRow>& rows);
// One text per title; empty where nothing is known.
std::vector<std::string> Cells(const SweepRow& row, std::string (*number)(double));

}  // namespace ddprun::launcher
