#include "trainer/data/labelled_texts.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "base/env.h"
#include "base/text.h"
#include "trainer/data/csv_reader.h"
#include "trainer/data/data_files.h"

namespace ddprun::trainer {

namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kTextColumns = {
    {{"sentence1", "sentence2"},
     {"premise", "hypothesis"},
     {"question1", "question2"},
     {"question", "sentence"},
     {"sentence", ""},
     {"text", ""}}};
constexpr std::array<std::string_view, 2> kLabelColumns = {"gold_label", "label"};
// A row keeps the sizes of its texts in 32 bits.
constexpr size_t kMaxText = std::numeric_limits<int32_t>::max();

bool EndsIn(std::string_view path, std::string_view extension) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  return ToAsciiLower(path.substr(path.size() - std::min(path.size(), size_t{4}))) == extension;
}

std::string_view TakeLine(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::vector<std::string_view> SplitTabs(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const size_t end = line.find('\t');
    fields.push_back(line.substr(0, end));
    if (end == line.npos) return fields;
    line.remove_prefix(end + 1);
  }
}

}  // namespace

class LabelledTextReader {
 public:
  LabelledTextReader(const LabelledTextColumns& columns, BadRows& bad_rows, LabelledTexts& texts)
      : wanted_(columns), bad_rows_(bad_rows), texts_(texts) {}

  void ReadFile(const std::string& path) {
    path_ = path;
    bytes_ = ReadDataFile(path, simdjson::SIMDJSON_PADDING, "jsonl");
    RefuseOtherThanText(path, bytes_.text());
    columns_.reset();
    if (EndsIn(path, ".csv")) return ReadCsv();
    const bool tabs = EndsIn(path, ".tsv");
    std::string_view rest = bytes_.text();
    if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
    std::vector<std::string_view> header;
    for (line_ = 1; !rest.empty(); ++line_) {
      const std::string_view line = TakeLine(rest);
      if (line.find_first_not_of(" \t") == line.npos) continue;
      if (!tabs) {
        ReadJson(line);
      } else if (header.empty()) {
        header = SplitTabs(line);
        FindColumns(header);
      } else {
        ReadFields(header, SplitTabs(line));
      }
    }
  }

 private:
  void ReadCsv() {
    CsvReader reader(bytes_.text(), ',');
    std::vector<std::string> names;
    std::vector<std::string> fields;
    while (reader.Next(names.empty() ? names : fields)) {
      line_ = reader.line();
      const std::vector<std::string_view> header(names.begin(), names.end());
      if (!reader.problem().empty()) {
        bad_rows_.Add(path_, line_, reader.problem());
        if (!columns_) names.clear();
      } else if (!columns_) {
        FindColumns(header);
      } else {
        ReadFields(header, {fields.begin(), fields.end()});
      }
    }
  }

  void FindColumns(const std::vector<std::string_view>& names) {
    const auto has = [&](std::string_view name) { return IndexOf(names, name).has_value(); };
    LabelledTextColumns columns = wanted_;
    if (columns.first.empty()) {
      for (const auto& [first, second] : kTextColumns) {
        if (!has(first) || (!second.empty() && !has(second))) continue;
        columns.first = first;
        if (columns.second.empty()) columns.second = second;
        break;
      }
    }
    if (columns.label.empty()) {
      const auto found = std::ranges::find_if(kLabelColumns, has);
      if (found != kLabelColumns.end()) columns.label = *found;
    }
    for (const std::string* name : {&columns.first, &columns.second, &columns.label}) {
      const bool optional =
          name == &columns.second || (name == &columns.label && !columns.with_labels);
      if (name->empty() ? optional : has(*name)) continue;
      if (optional && name == &columns.label) continue;
      throw WrongDataFile(
          path_ + ":" + std::to_string(line_),
          (name->empty() ? "The first row has no known column for the " +
                               std::string(name == &columns.label ? "label" : "text")
                         : "The first row has no column \"" + *name + "\"") +
              "; it has " + QuoteNames({names.begin(), names.end()}) + ".",
          "Name the columns: data.text_column, data.text_pair_column, data.label_column.");
    }
    columns_ = std::move(columns);
  }

  static std::optional<size_t> IndexOf(const std::vector<std::string_view>& header,
                                       std::string_view name) {
    const auto found = std::ranges::find(header, name);
    if (found == header.end()) return std::nullopt;
    return found - header.begin();
  }

  void ReadFields(const std::vector<std::string_view>& header,
                  const std::vector<std::string_view>& fields) {
    if (fields.size() != header.size()) {
      return bad_rows_.Add(path_, line_,
                           "The row has " + CountText(std::ssize(fields), "field") +
                               "; the header has " + std::to_string(header.size()) + ".");
    }
    if (!std::ranges::all_of(fields, [](std::string_view text) {
          return simdjson::validate_utf8(text.data(), text.size());
        })) {
      return bad_rows_.Add(path_, line_, "The row is not UTF-8.");
    }
    const auto field = [&](const std::string& name) { return fields[*IndexOf(header, name)]; };
    std::optional<std::string_view> second;
    if (!columns_->second.empty()) second = field(columns_->second);
    AddRow(field(columns_->first), second,
           columns_->with_labels ? std::string(field(columns_->label)) : "0");
  }

  void ReadJson(std::string_view line) {
    element row;
    // simdjson reads beyond the line: into the next lines, or into the padding of ReadDataFile().
    const auto error = parser_.parse(line.data(), line.size(), false).get(row);
    if (error != simdjson::SUCCESS || !row.is_object()) {
      const std::string reason = error != simdjson::SUCCESS
                                     ? std::string(" (") + simdjson::error_message(error) + ")"
                                     : "";
      const std::string tables =
          columns_ ? "" : " A table is read from a file that ends in .csv or, with tabs, in .tsv.";
      return bad_rows_.Add(
          path_, line_,
          "The line is no JSON object" + reason + "; each line is expected to be one." + tables);
    }
    if (!columns_) {
      std::vector<std::string_view> names;
      const simdjson::dom::object object = row.get_object().value();
      for (const auto& field : object) names.push_back(field.key);
      FindColumns(names);
    }
    std::string_view first;
    std::string_view second;
    const bool pair = !columns_->second.empty();
    std::string label;
    if (!Text(row, columns_->first, first)) return;
    if (pair && !Text(row, columns_->second, second)) return;
    if (!Label(row, label)) return;
    AddRow(first, pair ? std::optional(second) : std::nullopt, std::move(label));
  }

  bool Text(const element& row, const std::string& name, std::string_view& text) {
    if (row[name].get_string().get(text) == simdjson::SUCCESS) return true;
    bad_rows_.Add(path_, line_,
                  "Column \"" + name + "\" is " +
                      (row[name].error() == simdjson::SUCCESS ? "no string." : "missing."));
    return false;
  }

  bool Label(const element& row, std::string& label) {
    if (!columns_->with_labels) {
      label = "0";
      return true;
    }
    element value;
    if (row[columns_->label].get(value) != simdjson::SUCCESS) {
      bad_rows_.Add(path_, line_, "Column \"" + columns_->label + "\" is missing.");
      return false;
    }
    if (value.type() == element_type::INT64) {
      label = std::to_string(value.get_int64().value());
    } else if (value.type() == element_type::STRING) {
      label = value.get_string().value();
    } else {
      bad_rows_.Add(path_, line_,
                    "Column \"" + columns_->label + "\" is neither a string nor an integer.");
      return false;
    }
    return true;
  }

  void AddRow(std::string_view first, std::optional<std::string_view> second, std::string label) {
    if (label == "-" || label == "-1") return bad_rows_.AddUnlabelled();
    if (label.empty()) {
      return bad_rows_.Add(path_, line_, "Column \"" + columns_->label + "\" is empty.");
    }
    if (first.size() > kMaxText || second.value_or("").size() > kMaxText) {
      return bad_rows_.Add(path_, line_, "A text has 2 GiB or more.");
    }
    const auto [known, added] =
        label_ids_.emplace(std::move(label), static_cast<int32_t>(label_ids_.size()));
    if (added) {
      texts_.label_names_.push_back(known->first);
      texts_.places_.emplace(known->first, path_ + ":" + std::to_string(line_));
    }
    texts_.rows_.Add({.begin = texts_.texts_.size(),
                      .first_size = static_cast<uint32_t>(first.size()),
                      .second_size = static_cast<uint32_t>(second.value_or("").size()),
                      .label = known->second,
                      .has_second = second.has_value()});
    for (const std::string_view text : {first, second.value_or("")}) {
      texts_.texts_.Append(text.data(), text.size());
    }
  }

  const LabelledTextColumns& wanted_;
  BadRows& bad_rows_;
  LabelledTexts& texts_;
  simdjson::dom::parser parser_;
  std::unordered_map<std::string, int32_t> label_ids_;
  std::string path_;
  FileBytes bytes_;
  int64_t line_ = 0;
  std::optional<LabelledTextColumns> columns_;  // of the file; set by its first row
};

LabelledTexts LabelledTexts::Read(const std::vector<std::string>& files,
                                  const LabelledTextColumns& columns,
                                  BadRows& bad_rows) {
  LabelledTexts texts;
  LabelledTextReader reader(columns, bad_rows, texts);
  for (const std::string& file : files) reader.ReadFile(file);
  if (texts.rows_.empty()) {
    throw WrongDataFile(files.front(), "The data files have no row with a label.",
                        "JSON lines or, in a .csv or .tsv file, rows below a header are expected.");
  }
  texts.SortLabels();
  return texts;
}

void LabelledTexts::SortLabels() {
  const bool numbers = std::ranges::all_of(
      label_names_, [](const std::string& name) { return ParseInt(name).has_value(); });
  std::vector<int32_t> order(label_names_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int32_t a, int32_t b) {
    if (numbers) return *ParseInt(label_names_[a]) < *ParseInt(label_names_[b]);
    return label_names_[a] < label_names_[b];
  });
  std::vector<int32_t> place(order.size());
  std::vector<std::string> sorted;
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<int32_t>(i);
    sorted.push_back(label_names_[order[i]]);
  }
  for (Row& row : rows_) row.label = place[row.label];
  label_names_ = std::move(sorted);
}

std::string_view LabelledTexts::first(int64_t row) const {
  const Row& found = rows_[static_cast<size_t>(row)];
  return {texts_.data() + found.begin, found.first_size};
}

std::optional<std::string_view> LabelledTexts::second(int64_t row) const {
  const Row& found = rows_[static_cast<size_t>(row)];
  if (!found.has_second) return std::nullopt;
  return std::string_view(texts_.data() + found.begin + found.first_size, found.second_size);
}

}  // namespace ddprun::trainer
