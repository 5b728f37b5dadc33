// What the tables of a sweep share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/sweep/sweep_table.h"

namespace ddprun::launcher {

// Among the finished ones: the least validation loss, or the least loss when none was validated.
std::optional<size_t> BestRow(const std::vector<SweepRow>& rows);

// Five digits.
std::string ShortNumber(double value);

std::vector<std::string> ColumnTitles(const std::vector<SweepRow>& rows);
// One text per title; empty where nothing is known.
std::vector<std::string> Cells(const SweepRow& row, std::string (*number)(double));

}  // namespace ddprun::launcher
