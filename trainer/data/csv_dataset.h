// Tables of numbers and categories, with a class or a number to predict.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/csv_encoding.h"
#include "trainer/data/dataset.h"

namespace ddprun::trainer {

class CsvDataset final : public Dataset {
 public:
  // Reads the files with ReadCsvTable(). Throws Failure, also if no row has features.
  explicit CsvDataset(const CsvDatasetOptions& options);
  // Makes a table without rows, whose encoding other tables take.
  CsvDataset(CsvEncoding encoding, bool target_is_class);

  int64_t size() const override { return columns_.size(0); }
  // Returns inputs float32 [B, encoding().width()], targets, which are classes int64 [B] or numbers
  // float32 [B, 1], and weights if there is a column of them.
  Batch Get(std::span<const int64_t> indices) const override;
  DataShape shape() const override;
  std::vector<int64_t> Classes() const override;
  std::vector<std::string> Notes() const override { return notes_; }
  bool in_memory() const override { return true; }
  bool equal_predictions() const override { return !weights_.defined(); }
  // Returns data.json, the text of DescribeTable().
  std::map<std::string, std::string> ModelFiles() const override {
    return {{"data.json", description_}};
  }
  const CsvEncoding& encoding() const { return encoding_; }

 private:
  void NoteCategories();
  at::Tensor ExpandColumns(const at::Tensor& columns) const;

  CsvEncoding encoding_;
  bool has_categories_ = false;
  std::string description_;
  std::vector<std::string> notes_;
  LargeArray<float> values_;  // of columns_
  // float32 [rows, features]: a number, or the place of a category, -1 if it is missing.
  at::Tensor columns_;
  at::Tensor targets_;
  at::Tensor weights_;  // float32 [rows]; undefined: all rows count alike
};

}  // namespace ddprun::trainer
