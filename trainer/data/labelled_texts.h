// Texts and pairs of texts with a label each, as GLUE and MNLI are published. LibTorch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trainer/data/bad_rows.h"

namespace ddprun::trainer {

struct LabelledTextColumns {
  // Empty names are found out from each file's first row: sentence1 and sentence2, premise and
  // hypothesis, question1 and question2, question and sentence, or a single sentence or text; the
  // label is gold_label or label.
  std::string first;
  std::string second;
  std::string label;
};

// Rows in memory, unescaped. Immutable after Read: any thread.
class LabelledTexts {
 public:
  // A name that ends in .csv is comma-separated with a header, in .tsv tab-separated, quotes being
  // plain characters, .gz behind either; others are JSON lines. Rows labelled "-" or -1 have none
  // and are counted as such; empty lines are passed over. Throws Failure.
  static LabelledTexts Read(const std::vector<std::string>& files,
                            const LabelledTextColumns& columns,
                            BadRows& bad_rows);

  int64_t size() const { return static_cast<int64_t>(rows_.size()); }
  std::string_view first(int64_t row) const;
  std::optional<std::string_view> second(int64_t row) const;
  // Index into label_names().
  int64_t label(int64_t row) const { return rows_[row].label; }
  // The labels as they stand in the files: numbers by size if all are numbers, else by name.
  const std::vector<std::string>& label_names() const { return label_names_; }
  // file:line of the first row with this label. REQUIRES: it is one of label_names().
  const std::string& place_of(const std::string& label) const { return places_.at(label); }

 private:
  friend class LabelledTextReader;
  struct Row {
    uint64_t begin = 0;  // in texts_
    uint32_t first_size = 0;
    uint32_t second_size = 0;
    int32_t label = 0;
    bool has_second = false;
  };
  void SortLabels();

  std::string texts_;
  std::vector<Row> rows_;
  std::vector<std::string> label_names_;
  std::unordered_map<std::string, std::string> places_;  // by label
};

}  // namespace ddprun::trainer
