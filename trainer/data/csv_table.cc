#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "trainer/data/bad_rows.h"
#include "trainer/data/csv_encoding.h"
#include "trainer/data/csv_reader.h"
#include "trainer/data/data_files.h"
#include "trainer/data/text_numbers.h"

namespace ddprun::trainer {

namespace {

using Fields = std::vector<std::string>;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

std::string_view TrimBlanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Returns whether labels look like measurements: numbers that are not whole, or very many.
bool AreRatherNumbers(const std::vector<std::string>& labels) {
  constexpr size_t kManyClasses = 100;
  bool whole = true;
  for (const std::string& label : labels) {
    const std::optional<double> number = ParseNumber(label);
    if (!number) return false;
    whole = whole && *number == std::floor(*number);
  }
  return !whole || labels.size() > kManyClasses;
}

// Returns a hint about a missing column.
std::string HintFor(const Fields& header, const std::string& name, char delimiter) {
  for (const char other : std::string_view(header.size() == 1 ? ";\t|," : "")) {
    if (other == delimiter || header.front().find(other) == std::string::npos) continue;
    const std::string written = other == '\t' ? "\\t" : std::string(1, other);
    return "Its fields are separated by another character: set data.delimiter to \"" + written +
           "\".";
  }
  const auto nearest = FindNearest(name, header);
  return nearest ? "Did you mean \"" + *nearest + "\"?" : "The first line must name the columns.";
}

size_t Find(const Fields& header,
            const std::string& name,
            const std::string& path,
            char delimiter) {
  const auto found = std::ranges::find(header, name);
  if (found != header.end()) return found - header.begin();
  throw WrongDataFile(path,
                      "\"" + path + "\" has no column \"" + name + "\". Its columns are " +
                          QuoteNames(header) + ".",
                      HintFor(header, name, delimiter));
}

// Returns false if the file is empty.
bool ReadHeader(const std::string& path, CsvReader& reader, Fields& header) {
  if (!reader.Next(header)) return false;
  for (std::string& name : header) name = TrimBlanks(name);
  Fields sorted = header;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice == sorted.end()) return true;
  throw WrongDataFile(path, "Two columns of \"" + path + "\" have the name \"" + *twice + "\".",
                      "Each column needs a name of its own in the first line.");
}

// Names the features, and finds which are categories: the requested ones, and those for which no
// row has a number.
void FindFeatures(const CsvDatasetOptions& options,
                  const std::vector<std::string>& files,
                  std::vector<CsvFeature>& features) {
  for (const std::string& name : options.features) features.push_back({.column = name});
  std::vector<bool> has_number;
  std::vector<bool> has_text;
  for (const std::string& path : files) {
    const FileBytes bytes = ReadDataFile(path, 0, std::string(1, options.delimiter));
    RefuseOtherThanText(path, bytes.text());
    CsvReader reader(bytes.text(), options.delimiter);
    Fields header;
    if (!ReadHeader(path, reader, header)) continue;
    Fields fields;
    for (const std::string& name : header) {
      if (options.features.empty() && has_number.empty() && options.MayBeInput(name)) {
        features.push_back({.column = name});
      }
    }
    has_number.resize(features.size());
    has_text.resize(features.size());
    std::vector<size_t> open;  // features without a number so far
    std::vector<size_t> columns;
    for (const CsvFeature& feature : features) {
      columns.push_back(Find(header, feature.column, path, options.delimiter));
    }
    for (const std::string& name : options.categorical) {
      Find(header, name, path, options.delimiter);
    }
    Find(header, options.target, path, options.delimiter);
    if (!options.weight.empty()) Find(header, options.weight, path, options.delimiter);
    for (size_t i = 0; i < features.size(); ++i) {
      if (!has_number[i]) open.push_back(i);
    }
    while (!open.empty() && reader.Next(fields)) {
      if (!reader.problem().empty() || fields.size() != header.size()) continue;
      std::erase_if(open, [&](size_t i) {
        const std::string_view text = TrimBlanks(fields[columns[i]]);
        if (IsMissing(text)) return false;
        has_number[i] = ParseNumber(text).has_value();
        has_text[i] = true;
        return static_cast<bool>(has_number[i]);
      });
    }
  }
  for (size_t i = 0; i < features.size(); ++i) {
    const bool asked =
        std::ranges::find(options.categorical, features[i].column) != options.categorical.end();
    features[i].is_category = asked || (has_text[i] && !has_number[i]);
  }
}

class Reader {
 public:
  Reader(const CsvDatasetOptions& options, CsvEncoding& encoding)
      : options_(options),
        encoding_(encoding),
        training_(options.encoding == nullptr),
        told_(options.takes != nullptr && !training_),
        has_weights_(options.with_targets && !options.weight.empty()),
        labels_known_(!encoding.labels.empty()),
        labels_(encoding.labels),
        bad_rows_(options.skip_bad_rows) {
    for (const CsvFeature& feature : encoding.features)
      categories_.emplace_back(feature.categories);
    overfull_.resize(categories_.size());
  }

  void ReadFile(const std::string& path) {
    path_ = path;
    const FileBytes bytes = ReadDataFile(path, 0, std::string(1, options_.delimiter));
    RefuseOtherThanText(path, bytes.text());
    CsvReader reader(bytes.text(), options_.delimiter);
    Fields fields;
    if (!ReadHeader(path, reader, fields)) return;
    if (options_.with_targets) target_ = Find(fields, options_.target, path_, options_.delimiter);
    if (has_weights_) weight_ = Find(fields, options_.weight, path_, options_.delimiter);
    columns_.clear();
    for (const CsvFeature& feature : encoding_.features) {
      columns_.push_back(Find(fields, feature.column, path_, options_.delimiter));
    }
    if (!options_.with_targets) RefuseOtherColumns(fields);
    const size_t columns = fields.size();
    while (reader.Next(fields)) {
      line_ = reader.line();
      if (!reader.problem().empty()) {
        Bad(reader.problem());
      } else if (fields.size() != columns) {
        Bad("The row has " + CountText(std::ssize(fields), "field") + "; the header has " +
            std::to_string(columns) + ".");
      } else {
        ReadRow(fields);
      }
    }
  }

  CsvTable Finish() {
    if (std::ranges::find(overfull_, true) != overfull_.end()) throw TooManyCategories();
    table_.notes = bad_rows_.Notes();
    if (training_) SortCategories();
    if (!labels_known_ && options_.target_is_class) {
      const std::vector<int64_t> place = SortTexts(labels_.texts());
      for (int64_t& label : table_.classes) label = place[static_cast<size_t>(label)];
      encoding_.labels = labels_.texts();
      if (AreRatherNumbers(encoding_.labels)) {
        table_.notes.push_back("column \"" + options_.target + "\" has " +
                               std::to_string(encoding_.labels.size()) +
                               " different numbers, each taken as a class of its own; "
                               "data.target_type \"number\" predicts them as numbers");
      }
    }
    // pandas writes the numbers of its rows in such a column.
    if (training_ && std::ranges::count(encoding_.features, "", &CsvFeature::column) > 0) {
      table_.notes.push_back(
          "the column without a name is taken as an input; data.feature_columns leaves it out");
    }
    if (incomplete_ > 0) {
      table_.notes.push_back(CountText(incomplete_, "row") + " skipped that have a missing field");
    }
    return std::move(table_);
  }

 private:
  void Bad(const std::string& found) {
    if (!told_) bad_rows_.Add(path_, line_, found);
  }
  // A column that training did not have may be a misspelt or a forgotten input.
  void RefuseOtherColumns(const Fields& header) const {
    Fields other;
    for (const std::string& name : header) {
      if (options_.MayBeInput(name) &&
          std::ranges::find(encoding_.features, name, &CsvFeature::column) ==
              encoding_.features.end()) {
        other.push_back(name);
      }
    }
    if (other.empty() || !options_.features.empty()) return;
    throw WrongDataFile(path_,
                        "\"" + path_ + "\" has columns that the training data did not have: " +
                            QuoteNames(other) + ".",
                        "Remove them, or train with data.feature_columns, which names the inputs.");
  }
  std::string Place() const { return path_ + ":" + std::to_string(line_); }

  void SortCategories() {
    const size_t width = encoding_.features.size();
    std::vector<std::vector<int64_t>> places(width);  // empty for numbers
    for (size_t i = 0; i < width; ++i) {
      if (!encoding_.features[i].is_category) continue;
      places[i] = SortTexts(categories_[i].texts());
      encoding_.features[i].categories = categories_[i].texts();
    }
    // Row by row, because the values may be on disk.
    for (size_t at = 0; at < table_.values.size(); ++at) {
      const auto& place = places[at % width];
      double& value = table_.values[at];
      if (place.empty() || std::isnan(value)) continue;
      value = static_cast<double>(place[static_cast<size_t>(value)]);
    }
  }

  // Returns the value of a field; nullopt means that the row is left out.
  std::optional<double> Value(const std::string& field, const std::string& column, bool may_miss) {
    const std::string_view text = TrimBlanks(field);
    if (IsMissing(text)) return Missing(column, may_miss);
    const std::optional<double> number = ParseNumber(text);
    if (number && std::abs(*number) <= std::numeric_limits<float>::max()) return number;
    Bad("Column \"" + column + "\" is \"" + ShortenForMessage(text) + "\"; a number " +
        (number && std::isfinite(*number) ? "of float32 " : "") + "was expected. " +
        "data.categorical_columns takes the values of a column as names.");
    return std::nullopt;
  }

  // Returns 0 for a category, because NumberCategories() numbers it when the whole row is good.
  std::optional<double> Category(const std::string& field, const std::string& column) {
    return IsMissing(TrimBlanks(field)) ? Missing(column, true) : std::optional<double>(0);
  }

  std::optional<double> Missing(const std::string& column, bool may_miss) {
    if (may_miss && options_.missing == OnMissing::kMean) return kMissing;
    Lacks(column);
    return std::nullopt;
  }

  // Returns false if the row has a category that the training data does not have.
  bool NumberCategories(const Fields& fields, std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (!encoding_.features[i].is_category || std::isnan(values[i]) || overfull_[i]) continue;
      const std::string text(TrimBlanks(fields[columns_[i]]));
      const auto number = training_ ? categories_[i].Add(text) : categories_[i].Find(text);
      if (!number) {
        UnknownCategory(text, encoding_.features[i]);
        return false;
      }
      overfull_[i] = training_ && *number >= options_.max_categories;
      values[i] = static_cast<double>(*number);
    }
    return true;
  }

  void UnknownCategory(const std::string& text, const CsvFeature& known) {
    const auto nearest = FindNearest(text, known.categories);
    bad_rows_.Add(path_, line_,
                  "Column \"" + known.column + "\" is \"" + ShortenForMessage(text) +
                      "\", which no row of the training data has" +
                      (nearest ? "; \"" + *nearest + "\" comes close." : "."));
  }

  // Returns an error that names all such columns and, ready to copy, the key that leaves them out.
  Failure TooManyCategories() {
    std::string found;
    Fields kept;
    for (size_t i = 0; i < overfull_.size(); ++i) {
      const std::string& name = encoding_.features[i].column;
      const Fields& texts = categories_[i].texts();
      if (overfull_[i]) {
        found += "Column \"" + name + "\" has more than " +
                 std::to_string(options_.max_categories) + " different values (" +
                 QuoteNames(texts, 2) + ").\n";
      } else {
        kept.push_back(name);
      }
    }
    return Failure(Error{.code = Code::kUsage,
                         .title = "TOO MANY CATEGORIES",
                         .where = path_,
                         .what = found + "Each of the values would be an input of its own.",
                         .hint = "This leaves them out: \"feature_columns\": [" +
                                 QuoteNames(kept, kept.size()) + "]\n" +
                                 "Or raise data.max_categories.",
                         .page = "too-many-categories"});
  }

  void Lacks(const std::string& column) {
    if (options_.missing == OnMissing::kError) {
      Bad("Column \"" + column +
          "\" has no value; data.on_missing \"skip\" leaves such rows out, \"mean\" puts the "
          "column's mean there.");
    } else if (!told_) {
      ++incomplete_;
    }
  }

  bool ReadTarget(const Fields& fields) {
    if (!options_.with_targets) {
      options_.target_is_class ? table_.classes.Add(0) : table_.numbers.Add(0);
      return true;
    }
    const std::string& field = fields[target_];
    if (!options_.target_is_class) {
      const auto number = Value(field, options_.target, false);
      if (number) table_.numbers.Add(*number);
      return number.has_value();
    }
    const std::string label(TrimBlanks(field));
    if (IsMissing(label)) {
      Lacks(options_.target);
      return false;
    }
    const auto known = labels_.Find(label);
    if (!known && labels_known_) throw UnknownLabel(Place(), label, encoding_.labels);
    table_.classes.Add(known ? *known : labels_.Add(label));
    return true;
  }
  void DropTarget() {
    options_.target_is_class ? table_.classes.RemoveLast() : table_.numbers.RemoveLast();
  }
  // Returns nullopt if the row is left out. A batch with weights of 0 alone would have no mean.
  std::optional<double> Weight(const Fields& fields) {
    if (!has_weights_) return 1;
    const std::optional<double> weight = ParseNumber(TrimBlanks(fields[weight_]));
    if (weight && std::isfinite(*weight) && *weight > 0) return weight;
    Bad("Column \"" + options_.weight + "\", which data.weight_column names, is \"" +
        ShortenForMessage(fields[weight_]) + "\"; a number above 0 was expected.");
    return std::nullopt;
  }

  void ReadRow(const Fields& fields) {
    std::vector<double> values;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string& field = fields[columns_[i]];
      const auto value = encoding_.features[i].is_category
                             ? Category(field, encoding_.features[i].column)
                             : Value(field, encoding_.features[i].column, true);
      if (!value) return;
      values.push_back(*value);
    }
    const auto weight = Weight(fields);
    if (!weight || !ReadTarget(fields)) return;
    const bool taken = options_.takes == nullptr || options_.takes(readable_++);
    if (!taken || !NumberCategories(fields, values)) return DropTarget();
    table_.values.Append(values.data(), values.size());
    if (has_weights_) table_.weights.Add(*weight);
    ++table_.rows;
  }

  const CsvDatasetOptions& options_;
  CsvEncoding& encoding_;
  const bool training_;
  const bool told_;  // the training data has these rows and has reported bad ones
  const bool has_weights_;
  const bool labels_known_;
  TextNumbers labels_;
  std::vector<TextNumbers> categories_;  // by feature
  std::vector<bool> overfull_;           // by feature: has more categories than allowed
  BadRows bad_rows_;
  CsvTable table_;
  std::string path_;
  int64_t line_ = 0;
  size_t target_ = 0;  // columns of this file
  size_t weight_ = 0;
  std::vector<size_t> columns_;  // by feature: its column in this file
  int64_t incomplete_ = 0;
  int64_t readable_ = 0;  // rows
};

}  // namespace

CsvTable ReadCsvTable(const CsvDatasetOptions& options, CsvEncoding& encoding) {
  if (options.encoding == nullptr) FindFeatures(options, options.files, encoding.features);
  Reader reader(options, encoding);
  for (const std::string& file : options.files) reader.ReadFile(file);
  return reader.Finish();
}

}  // namespace ddprun::trainer
