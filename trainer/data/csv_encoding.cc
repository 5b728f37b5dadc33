#include "trainer/data/csv_encoding.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include <nlohmann/json.hpp>

namespace ddprun::trainer {

int64_t CsvEncoding::width() const {
  int64_t inputs = 0;
  for (const CsvFeature& feature : features) inputs += feature.width();
  return inputs;
}

bool IsMissing(std::string_view field) {
  for (const std::string_view word : {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"}) {
    if (field == word) return true;
  }
  return false;
}

std::optional<double> ParseNumber(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

std::vector<int64_t> SortTexts(std::vector<std::string>& texts) {
  std::vector<int64_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int64_t i) { return texts[i]; });
  const auto number = [](const std::string& text) { return ParseNumber(text).has_value(); };
  if (std::ranges::all_of(texts, number)) {
    std::ranges::stable_sort(order, {}, [&](int64_t i) { return *ParseNumber(texts[i]); });
  }
  std::vector<int64_t> place(order.size());
  std::vector<std::string> sorted;
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<int64_t>(i);
    sorted.push_back(std::move(texts[order[i]]));
  }
  texts = std::move(sorted);
  return place;
}

std::string DescribeTable(const CsvEncoding& encoding, const CsvDatasetOptions& options) {
  using nlohmann::ordered_json;
  ordered_json inputs = ordered_json::array();
  for (const CsvFeature& feature : encoding.features) {
    ordered_json column = {{"column", feature.column}};
    if (feature.is_category) {
      column["categories"] = feature.categories;
    } else if (options.standardize) {
      column["mean"] = feature.mean.front();
      column["deviation"] = feature.deviation;
    }
    if (options.missing == OnMissing::kMean) column["missing"] = feature.mean;
    inputs.push_back(std::move(column));
  }
  ordered_json target = {{"column", options.target}};
  if (options.target_is_class) target["labels"] = encoding.labels;
  if (encoding.target_mean != 0 || encoding.target_deviation != 1) {
    target["mean"] = encoding.target_mean;
    target["deviation"] = encoding.target_deviation;
  }
  const ordered_json all = {{"format", "csv"}, {"inputs", inputs}, {"target", target}};
  // Replaces bytes that are not UTF-8, because a table may have them and JSON may not.
  return all.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

CsvEncoding ReadTableDescription(const std::string& json) {
  const nlohmann::json all = nlohmann::json::parse(json);
  CsvEncoding encoding;
  for (const nlohmann::json& column : all.at("inputs")) {
    CsvFeature feature{.column = column.at("column"), .is_category = column.contains("categories")};
    if (feature.is_category) column.at("categories").get_to(feature.categories);
    feature.mean.assign(static_cast<size_t>(feature.width()), column.value("mean", 0.0));
    if (column.contains("missing")) column.at("missing").get_to(feature.mean);
    feature.deviation = column.value("deviation", 1.0);
    encoding.features.push_back(std::move(feature));
  }
  const nlohmann::json& target = all.at("target");
  encoding.labels = target.value("labels", encoding.labels);
  encoding.target_mean = target.value("mean", 0.0);
  encoding.target_deviation = target.value("deviation", 1.0);
  return encoding;
}

}  // namespace ddprun::trainer
