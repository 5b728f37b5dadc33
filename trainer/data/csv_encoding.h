// How the columns of a table become inputs and targets. LibTorch-free.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/data_config.h"

namespace ddprun::trainer {

// A column of numbers is one input. One of categories has an input for each of them, 1 for that of
// the row and 0 for the others, as scikit-learn's OneHotEncoder.
struct CsvFeature {
  std::string column;
  bool is_category = false;
  std::vector<std::string> categories = {};  // sorted as SortTexts
  // Of each input, over the training rows that have a value; what a missing one is replaced by.
  std::vector<double> mean = {};
  double deviation = 1;  // of a number; 1 for a constant one

  int64_t width() const {  // inputs
    return is_category ? static_cast<int64_t>(categories.size()) : 1;
  }
};

// What validation data takes over from the training data.
struct CsvEncoding {
  std::vector<CsvFeature> features;  // in the order of the inputs
  std::vector<std::string> labels;   // of classes

  int64_t width() const;
};

struct CsvDatasetOptions {
  std::vector<std::string> files = {};
  char delimiter = ',';
  std::string target = {};                 // column
  std::vector<std::string> features = {};  // columns; empty: all others
  // Columns of categories; so are those of which no row of the training data has a number.
  std::vector<std::string> categorical = {};
  int64_t max_categories = 100;           // of a column
  bool target_is_class = true;            // else a number
  std::vector<std::string> labels = {};   // classes in order; empty: those of the data, sorted
  OnMissing missing = OnMissing::kError;  // empty fields, NA, NaN, null, ?
  bool standardize = false;               // columns of numbers
  bool skip_bad_rows = false;
  const CsvEncoding* encoding = nullptr;  // of the training data; else found out
  // Whether the row is taken, by its number among those that can be read; nullptr: all are. Rows
  // that are not taken count for nothing but labels, and for which columns are categories.
  std::function<bool(int64_t row)> takes = nullptr;
};

// Whether a field, without the blanks around it, stands for no value: "", NA, N/A, NaN, null, ?.
bool IsMissing(std::string_view field);

// The number that all of `text` is; infinite ones count.
std::optional<double> ParseNumber(std::string_view text);

// Sorts by value where all are numbers, else by name. Returns the new place of each.
std::vector<int64_t> SortTexts(std::vector<std::string>& texts);

// JSON for who uses the trained model: for each input which column, category, mean and deviation,
// and what the outputs are.
std::string DescribeTable(const CsvEncoding& encoding, const CsvDatasetOptions& options);

// The rows of CSV files, as numbers.

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
