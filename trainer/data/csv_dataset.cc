#include "trainer/data/csv_dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "base/suggest.h"
#include "trainer/data/csv_reader.h"
#include "trainer/data/data_files.h"

namespace ddprun::trainer {

namespace {

using Missing = CsvDatasetOptions::Missing;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool IsMissing(std::string_view field) {
  for (const std::string_view word : {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"}) {
    if (field == word) return true;
  }
  return false;
}

std::optional<double> Number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// The rows of all files, as they are read.
class Table {
 public:
  Table(const CsvDatasetOptions& options, CsvEncoding& encoding)
      : options_(options), encoding_(encoding), bad_rows_(options.skip_bad_rows) {}

  void ReadFile(const std::string& path) {
    path_ = path;
    const FileBytes bytes = ReadDataFile(path);
    CsvReader reader(bytes.text(), options_.delimiter);
    std::vector<std::string> fields;
    if (!reader.Next(fields)) return;
    FindColumns(fields);
    const size_t columns = fields.size();
    while (reader.Next(fields)) {
      line_ = reader.line();
      if (!reader.problem().empty()) {
        Bad(reader.problem());
      } else if (fields.size() != columns) {
        Bad("The row has " + std::to_string(fields.size()) + " fields; the header has " +
            std::to_string(columns) + ".");
      } else {
        ReadRow(fields);
      }
    }
  }

  std::vector<double> features;  // [rows, encoding.features], kMissing where there is none
  std::vector<std::string> classes;
  std::vector<double> numbers;
  int64_t rows = 0;

  std::vector<std::string> Notes() const {
    std::vector<std::string> notes = bad_rows_.Notes();
    if (incomplete_ > 0) {
      notes.push_back(std::to_string(incomplete_) + (incomplete_ == 1 ? " row" : " rows") +
                      " skipped that have a missing field");
    }
    return notes;
  }

 private:
  void Bad(const std::string& found) { bad_rows_.Add(path_, line_, found); }

  size_t Find(const std::vector<std::string>& header, const std::string& name) const {
    const auto found = std::ranges::find(header, name);
    if (found != header.end()) return found - header.begin();
    const auto nearest = Nearest(name, header);
    throw WrongDataFile(
        path_, "\"" + path_ + "\" has no column \"" + name + "\".",
        nearest ? "Did you mean \"" + *nearest + "\"?" : "The first line must name the columns.");
  }

  void FindColumns(const std::vector<std::string>& header) {
    target_ = Find(header, options_.target);
    if (encoding_.features.empty()) {
      for (const std::string& name : header) {
        if (name != options_.target) encoding_.features.push_back(name);
      }
    }
    columns_.clear();
    for (const std::string& name : encoding_.features) columns_.push_back(Find(header, name));
  }

  // The value of a field; nullopt: the row is left out.
  std::optional<double> Value(const std::string& field, const std::string& column, bool may_miss) {
    const std::string_view text = Trimmed(field);
    if (IsMissing(text)) {
      if (may_miss && options_.missing == Missing::kMean) return kMissing;
      Lacks(column);
      return std::nullopt;
    }
    const std::optional<double> number = Number(text);
    if (!number)
      Bad("Column \"" + column + "\" is \"" + std::string(text) + "\"; a number was expected.");
    return number;
  }

  void Lacks(const std::string& column) {
    if (options_.missing == Missing::kError) {
      Bad("Column \"" + column + "\" has no value; data.on_missing says what else may be done.");
    } else {
      ++incomplete_;
    }
  }

  void ReadRow(const std::vector<std::string>& fields) {
    std::vector<double> values;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const auto value = Value(fields[columns_[i]], encoding_.features[i], true);
      if (!value) return;
      values.push_back(*value);
    }
    const std::string& target = fields[target_];
    if (options_.target_is_class) {
      if (IsMissing(Trimmed(target))) return Lacks(options_.target);
      classes.emplace_back(Trimmed(target));
    } else {
      const auto number = Value(target, options_.target, false);
      if (!number) return;
      numbers.push_back(*number);
    }
    features.insert(features.end(), values.begin(), values.end());
    ++rows;
  }

  const CsvDatasetOptions& options_;
  CsvEncoding& encoding_;
  BadRows bad_rows_;
  std::string path_;
  int64_t line_ = 0;
  size_t target_ = 0;
  std::vector<size_t> columns_;  // of each feature in this file
  int64_t incomplete_ = 0;
};

// Mean and deviation (over all rows, as scikit-learn's StandardScaler) of each feature.
void Measure(const Table& table, CsvEncoding& encoding) {
  const size_t width = encoding.features.size();
  for (size_t column = 0; column < width; ++column) {
    double sum = 0;
    double count = 0;
    for (size_t i = column; i < table.features.size(); i += width) {
      if (std::isnan(table.features[i])) continue;
      sum += table.features[i];
      ++count;
    }
    const double mean = count > 0 ? sum / count : 0;
    double squares = 0;
    for (size_t i = column; i < table.features.size(); i += width) {
      if (!std::isnan(table.features[i])) squares += std::pow(table.features[i] - mean, 2);
    }
    const double deviation = count > 0 ? std::sqrt(squares / count) : 0;
    encoding.mean.push_back(mean);
    encoding.deviation.push_back(deviation > 0 ? deviation : 1);
  }
}

at::Tensor Inputs(const Table& table, const CsvEncoding& encoding, bool standardize) {
  const auto width = static_cast<int64_t>(encoding.features.size());
  at::Tensor inputs = at::empty({table.rows, width}, at::kFloat);
  auto* to = inputs.mutable_data_ptr<float>();
  for (size_t i = 0; i < table.features.size(); ++i) {
    const size_t column = i % encoding.features.size();
    double value = table.features[i];
    if (std::isnan(value)) value = encoding.mean[column];
    if (standardize) value = (value - encoding.mean[column]) / encoding.deviation[column];
    *to++ = static_cast<float>(value);
  }
  return inputs;
}

at::Tensor Classes(const Table& table,
                   const std::string& file,
                   const std::vector<std::string>& labels) {
  at::Tensor targets = at::empty({table.rows}, at::kLong);
  auto* to = targets.mutable_data_ptr<int64_t>();
  for (const std::string& name : table.classes) {
    const auto found = std::ranges::find(labels, name);
    if (found == labels.end()) {
      const auto nearest = Nearest(name, labels);
      throw Failure(Error{.code = Code::kUsage,
                          .title = "UNKNOWN LABEL",
                          .where = file,
                          .what = "A row is labelled \"" + name + "\", which is none of the " +
                                  std::to_string(labels.size()) + " labels.",
                          .hint = (nearest ? "Did you mean \"" + *nearest + "\"? " : "") +
                                  std::string("They come from data.labels, or else the training "
                                              "data."),
                          .page = "unknown-label"});
    }
    *to++ = found - labels.begin();
  }
  return targets;
}

// By value where all are numbers, else by name.
std::vector<std::string> SortedLabels(const std::vector<std::string>& classes) {
  const std::set<std::string> names(classes.begin(), classes.end());
  std::vector<std::string> labels(names.begin(), names.end());
  const auto number = [](const std::string& name) { return Number(name).has_value(); };
  if (!std::ranges::all_of(labels, number)) return labels;
  std::ranges::stable_sort(labels, {}, [](const std::string& name) { return *Number(name); });
  return labels;
}

}  // namespace

CsvDataset::CsvDataset(const CsvDatasetOptions& options) {
  if (options.encoding != nullptr) {
    encoding_ = *options.encoding;
  } else {
    encoding_.features = options.features;
    encoding_.labels = options.labels;
  }
  Table table(options, encoding_);
  const std::vector<std::string> files = ExpandFiles(options.patterns);
  for (const std::string& file : files) table.ReadFile(file);
  if (table.rows == 0 || encoding_.features.empty()) {
    throw WrongDataFile(files.front(), "The data files have no row with features.",
                        "A header and, below it, rows with a field for each column are expected.");
  }
  notes_ = table.Notes();
  if (options.encoding == nullptr) {
    Measure(table, encoding_);
    if (options.target_is_class && encoding_.labels.empty()) {
      encoding_.labels = SortedLabels(table.classes);
    }
  }
  inputs_ = Inputs(table, encoding_, options.standardize);
  if (options.target_is_class) {
    targets_ = Classes(table, files.front(), encoding_.labels);
    return;
  }
  targets_ = at::empty({table.rows, 1}, at::kFloat);
  std::ranges::transform(table.numbers, targets_.mutable_data_ptr<float>(),
                         [](double value) { return static_cast<float>(value); });
}

DataShape CsvDataset::shape() const {
  if (targets_.dim() == 2) return {.input = {inputs_.size(1)}, .target = {1}};
  return {.input = {inputs_.size(1)},
          .classes = static_cast<int64_t>(encoding_.labels.size()),
          .labels = encoding_.labels};
}

Batch CsvDataset::Get(std::span<const int64_t> indices) const {
  const auto count = static_cast<int64_t>(indices.size());
  // from_blob takes no const pointer; index_select only reads.
  const at::Tensor index =
      at::from_blob(const_cast<int64_t*>(indices.data()), {count}, at::kLong);  // NOLINT
  return {.inputs = at::index_select(inputs_, 0, index),
          .targets = at::index_select(targets_, 0, index),
          .samples = count,
          .predictions = count};
}

}  // namespace ddprun::trainer
