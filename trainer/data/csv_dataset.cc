#include "trainer/data/csv_dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trainer/data/csv_encoding.h"
#include "trainer/data/data_files.h"

namespace ddprun::trainer {

namespace {

// Calls use(value, column) for each value that is not missing, row by row, because the values may
// be on disk.
template <typename Use>
void ForEach(const CsvTable& table, size_t columns, const Use& use) {
  for (size_t i = 0; i < table.values.size(); ++i) {
    if (!std::isnan(table.values[i])) use(table.values[i], i % columns);
  }
}

// Returns the standard deviation from the sum of squared differences; 1 for values that are equal
// but for the rounding of their sums. Such a sum is not 0: the bound is that of scikit-learn.
double DeviationOf(double squares, double mean, double count) {
  if (count == 0) return 1;
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  const double variance = squares / count;
  const double rounding = count * kEpsilon * variance + std::pow(count * mean * kEpsilon, 2);
  return variance > rounding ? std::sqrt(variance) : 1;
}

// Sets the mean and deviation of each feature over all rows, as scikit-learn's StandardScaler does.
void Measure(const CsvTable& table, std::vector<CsvFeature>& features) {
  std::vector<double> counts(features.size());
  std::vector<double> squares(features.size());
  for (CsvFeature& feature : features) feature.mean.assign(static_cast<size_t>(feature.width()), 0);
  ForEach(table, features.size(), [&](double value, size_t column) {
    ++counts[column];
    CsvFeature& feature = features[column];
    if (feature.is_category) {
      feature.mean[static_cast<size_t>(value)] += 1;
    } else {
      feature.mean[0] += value;
    }
  });
  for (size_t i = 0; i < features.size(); ++i) {
    for (double& mean : features[i].mean) mean = counts[i] > 0 ? mean / counts[i] : 0;
  }
  ForEach(table, features.size(), [&](double value, size_t column) {
    if (features[column].is_category) return;
    squares[column] += std::pow(value - features[column].mean[0], 2);
  });
  for (size_t i = 0; i < features.size(); ++i) {
    if (features[i].is_category) continue;
    features[i].deviation = DeviationOf(squares[i], features[i].mean[0], counts[i]);
  }
}

void MeasureTarget(const CsvTable& table, CsvEncoding& encoding) {
  const auto rows = static_cast<double>(table.numbers.size());
  double sum = 0;
  for (const double number : table.numbers) sum += number;
  encoding.target_mean = sum / rows;
  double squares = 0;
  for (const double number : table.numbers) squares += std::pow(number - encoding.target_mean, 2);
  encoding.target_deviation = DeviationOf(squares, encoding.target_mean, rows);
}

LargeArray<float> Columns(const CsvTable& table,
                          const std::vector<CsvFeature>& features,
                          bool standardize) {
  LargeArray<float> columns;
  columns.Resize(table.values.size());
  for (size_t i = 0; i < table.values.size(); ++i) {
    const CsvFeature& feature = features[i % features.size()];
    double value = table.values[i];
    if (feature.is_category) {
      if (std::isnan(value)) value = -1;
    } else {
      if (std::isnan(value)) value = feature.mean[0];
      if (standardize) value = (value - feature.mean[0]) / feature.deviation;
    }
    columns[i] = static_cast<float>(value);
  }
  return columns;
}

at::Tensor Targets(const CsvTable& table, const CsvEncoding& encoding, bool target_is_class) {
  at::Tensor targets =
      target_is_class ? at::empty({table.rows}, at::kLong) : at::empty({table.rows, 1}, at::kFloat);
  if (target_is_class) {
    std::ranges::copy(table.classes, targets.mutable_data_ptr<int64_t>());
  } else {
    std::ranges::transform(
        table.numbers, targets.mutable_data_ptr<float>(), [&encoding](double value) {
          return static_cast<float>((value - encoding.target_mean) / encoding.target_deviation);
        });
  }
  return targets;
}

at::Tensor Weights(const CsvTable& table) {
  if (table.weights.empty()) return {};
  at::Tensor weights = at::empty({table.rows}, at::kFloat);
  std::ranges::transform(table.weights, weights.mutable_data_ptr<float>(),
                         [](double value) { return static_cast<float>(value); });
  return weights;
}

}  // namespace

CsvDataset::CsvDataset(const CsvDatasetOptions& options) {
  if (options.encoding != nullptr) {
    encoding_ = *options.encoding;
  } else {
    encoding_.labels = options.labels;
  }
  const CsvTable table = ReadCsvTable(options, encoding_);
  if (table.rows == 0 || encoding_.features.empty()) {
    throw WrongDataFile(options.files.front(), "The data files have no row with features.",
                        "A header and, below it, rows with a field for each column are expected.");
  }
  notes_ = table.notes;
  has_categories_ = std::ranges::any_of(encoding_.features, &CsvFeature::is_category);
  if (options.encoding == nullptr) {
    Measure(table, encoding_.features);
    NoteCategories();
    if (options.standardize_target) MeasureTarget(table, encoding_);
  }
  values_ = Columns(table, encoding_.features, options.standardize);
  columns_ =
      at::from_blob(values_.data(), {table.rows, std::ssize(encoding_.features)}, at::kFloat);
  targets_ = Targets(table, encoding_, options.target_is_class);
  weights_ = Weights(table);
  description_ = DescribeTable(encoding_, options);
}

CsvDataset::CsvDataset(CsvEncoding encoding, bool target_is_class)
    : encoding_(std::move(encoding)),
      columns_(at::empty({0, std::ssize(encoding_.features)}, at::kFloat)),
      targets_(Targets({}, encoding_, target_is_class)) {}

void CsvDataset::NoteCategories() {
  constexpr size_t kShown = 8;
  for (const CsvFeature& feature : encoding_.features) {
    if (!feature.is_category) continue;
    const size_t count = feature.categories.size();
    std::string names;
    for (size_t i = 0; i < std::min(count, kShown); ++i) {
      names += (i == 0 ? "" : ", ") + ShortenForMessage(feature.categories[i]);
    }
    notes_.push_back("column \"" + feature.column + "\" has " + std::to_string(count) +
                     (count == 1 ? " category, one input: " : " categories, an input each: ") +
                     names + (count > kShown ? ", ..." : ""));
  }
}

DataShape CsvDataset::shape() const {
  if (targets_.dim() == 2) {
    return {.input = {encoding_.width()},
            .target = {1},
            .target_mean = encoding_.target_mean,
            .target_deviation = encoding_.target_deviation};
  }
  return {.input = {encoding_.width()},
          .classes = static_cast<int64_t>(encoding_.labels.size()),
          .labels = encoding_.labels};
}

at::Tensor CsvDataset::ExpandColumns(const at::Tensor& columns) const {
  const int64_t rows = columns.size(0);
  at::Tensor inputs = at::empty({rows, encoding_.width()}, at::kFloat);
  const auto* from = columns.const_data_ptr<float>();
  auto* to = inputs.mutable_data_ptr<float>();
  for (int64_t row = 0; row < rows; ++row) {
    for (const CsvFeature& feature : encoding_.features) {
      const float value = *from++;
      if (!feature.is_category) {
        *to++ = value;
        continue;
      }
      if (value < 0) {
        std::ranges::transform(feature.mean, to, [](double x) { return static_cast<float>(x); });
      } else {
        std::fill_n(to, feature.width(), 0.0F);
        to[static_cast<int64_t>(value)] = 1;
      }
      to += feature.width();
    }
  }
  return inputs;
}

std::vector<int64_t> CsvDataset::Classes() const {
  if (targets_.scalar_type() != at::kLong) return {};
  const auto* targets = targets_.const_data_ptr<int64_t>();
  return {targets, targets + targets_.numel()};
}

Batch CsvDataset::Get(std::span<const int64_t> indices) const {
  const auto count = static_cast<int64_t>(indices.size());
  // from_blob() takes no const pointer; index_select() only reads.
  const at::Tensor index =
      at::from_blob(const_cast<int64_t*>(indices.data()), {count}, at::kLong);  // NOLINT
  const at::Tensor columns = at::index_select(columns_, 0, index);
  Batch batch{.inputs = has_categories_ ? ExpandColumns(columns) : columns,
              .targets = at::index_select(targets_, 0, index),
              .samples = count,
              .predictions = count};
  if (weights_.defined()) WeighSamples(at::index_select(weights_, 0, index), batch);
  return batch;
}

}  // namespace ddprun::trainer
