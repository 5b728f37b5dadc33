// The rows of CSV files, as numbers. LibTorch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/csv_encoding.h"

namespace ddprun::trainer {

struct CsvTable {
  int64_t rows = 0;
  // [rows, features]: numbers, or places among the feature's categories; NaN where there is none.
  std::vector<double> values;
  std::vector<int64_t> classes;    // [rows], places among the labels; of a target that is a class
  std::vector<double> numbers;     // [rows]; of another target
  std::vector<std::string> notes;  // what was left out, a line each
};

// Every file begins with a header; the columns may stand in another order in each. Without
// options.encoding the features, their categories and the labels are found out and put into
// `encoding`; with it `encoding` must be that one, and a row of another category is bad. Throws
// Failure: a bad row, a label that is none of those known, too many categories.
CsvTable ReadCsvTable(const CsvDatasetOptions& options, CsvEncoding& encoding);

}  // namespace ddprun::trainer
