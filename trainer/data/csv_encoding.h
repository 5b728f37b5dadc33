// The encoding of a table's columns as inputs and targets. LibTorch-free.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/large_array.h"
#include "trainer/config/data_config.h"

namespace ddprun::trainer {

// One column as inputs. A column of numbers is one input. A column of categories has one input for
// each category, 1 for the row's category and 0 for the others, as in scikit-learn's OneHotEncoder.
struct CsvFeature {
  std::string column;
  bool is_category = false;
  std::vector<std::string> categories = {};  // in the order of SortTexts()
  // The mean of each input over the training rows that have a value. It replaces missing values.
  std::vector<double> mean = {};
  double deviation = 1;  // of a number; 1 for a constant column

  int64_t width() const {  // inputs
    return is_category ? static_cast<int64_t>(categories.size()) : 1;
  }
};

// The encoding that training data defines and validation data uses, too.
struct CsvEncoding {
  std::vector<CsvFeature> features;  // in the order of the inputs
  std::vector<std::string> labels;   // names of the classes
  // A target number y is given as (y - target_mean) / target_deviation.
  double target_mean = 0;
  double target_deviation = 1;

  int64_t width() const;
};

struct CsvDatasetOptions {
  std::vector<std::string> files = {};
  char delimiter = ',';
  std::string target = {};                 // name of a column
  std::string weight = {};                 // name of a column of positive numbers; empty: none
  std::vector<std::string> features = {};  // names of columns; empty: all others
  // Columns of categories. A column is also one if no row of the training data has a number in it.
  std::vector<std::string> categorical = {};
  int64_t max_categories = 100;           // of a column
  bool target_is_class = true;            // false: a number
  std::vector<std::string> labels = {};   // classes in order; empty: the data's, sorted
  OnMissing missing = OnMissing::kError;  // empty fields, NA, NaN, null, ?
  bool standardize = false;               // columns of numbers
  bool standardize_target = false;        // a number
  bool skip_bad_rows = false;
  const CsvEncoding* encoding = nullptr;  // the training data's; nullptr: make it
  // false: the target and the weight may be absent and are not read, every target is 0, and a
  // column that is no input is refused unless `features` names the inputs. REQUIRES then: encoding.
  bool with_targets = true;
  // Returns whether to take a row, given its number among the readable rows; nullptr: all are
  // taken. Other rows count only for labels, and for the decision which columns are categories.
  std::function<bool(int64_t row)> takes = nullptr;

  // Returns whether a column with this name, which may be "", is neither target nor weight.
  bool MayBeInput(const std::string& name) const {
    return name != target && (weight.empty() || name != weight);
  }
};

// Returns whether a field, without the blanks around it, means a missing value: "", NA, N/A, NaN,
// nan, null, NULL, ?.
bool IsMissing(std::string_view field);

// Returns the number if all of `text` is one, which may be infinite.
std::optional<double> ParseNumber(std::string_view text);

// Sorts by value if all are numbers, else by name. Returns the new place of each text.
std::vector<int64_t> SortTexts(std::vector<std::string>& texts);

// Returns JSON for users of the trained model: the column, category, mean and deviation of each
// input, and the meaning of the outputs. An output is a standardized number if its target has a
// mean and a deviation.
std::string DescribeTable(const CsvEncoding& encoding, const CsvDatasetOptions& options);

// Parses the JSON of DescribeTable().
CsvEncoding ReadTableDescription(const std::string& json);

// The rows of CSV files, as numbers. They may be larger than the memory.

struct CsvTable {
  int64_t rows = 0;
  // [rows, features]: numbers, or places among the feature's categories; NaN if missing.
  LargeArray<double> values;
  LargeArray<int64_t> classes;     // [rows], places among the labels, if the target is a class
  LargeArray<double> numbers;      // [rows], if the target is a number
  LargeArray<double> weights;      // [rows], if there is a column of weights
  std::vector<std::string> notes;  // what was left out, a line each
};

// Reads the files. Every file begins with a header, and files may order their columns differently.
// Without options.encoding, finds the features, their categories and the labels, and puts them into
// `encoding`. With it, `encoding` must be a copy of it, and a row with an unknown category is bad.
//
// Throws Failure for a bad row, an unknown label, and too many categories.
CsvTable ReadCsvTable(const CsvDatasetOptions& options, CsvEncoding& encoding);

}  // namespace ddprun::trainer
