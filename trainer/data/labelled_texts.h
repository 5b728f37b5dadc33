// Texts and pairs of texts with a label each, in the formats of GLUE and MNLI. LibTorch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/large_array.h"
#include "trainer/data/bad_rows.h"

namespace ddprun::trainer {

struct LabelledTextColumns {
  // For empty names, each file's first row decides: sentence1 and sentence2, premise and
  // hypothesis, question1 and question2, question and sentence, or a single sentence or text; the
  // label is gold_label or label.
  std::string first;
  std::string second;
  std::string label;
  // false: labels may be absent and are not read; every row has the label 0.
  bool with_labels = true;
};

// Unescaped rows, which may be larger than the memory. Immutable after Read(): any thread.
class LabelledTexts {
 public:
  // Reads files. A name ending in .csv means comma-separated values with a header, .tsv means
  // tab-separated values in which quotes are plain characters, both also with .gz; other files are
  // JSON lines. Rows labelled "-" or -1 have no label and are counted as unlabelled; empty lines
  // are skipped. Throws Failure.
  static LabelledTexts Read(const std::vector<std::string>& files,
                            const LabelledTextColumns& columns,
                            BadRows& bad_rows);

  int64_t size() const { return static_cast<int64_t>(rows_.size()); }
  std::string_view first(int64_t row) const;
  std::optional<std::string_view> second(int64_t row) const;
  // Returns an index into label_names().
  int64_t label(int64_t row) const { return rows_[static_cast<size_t>(row)].label; }
  // Returns the labels as the files have them: sorted by value if all are numbers, else by name.
  const std::vector<std::string>& label_names() const { return label_names_; }
  // Returns file:line of the first row with this label. REQUIRES: it is one of label_names().
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

  LargeArray<char> texts_;
  LargeArray<Row> rows_;
  std::vector<std::string> label_names_;
  std::unordered_map<std::string, std::string> places_;  // by label
};

}  // namespace ddprun::trainer
