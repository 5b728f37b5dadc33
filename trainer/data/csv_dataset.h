// Tables of numbers and categories with a class or a number to predict, all in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/csv_encoding.h"
#include "trainer/data/dataset.h"

namespace ddprun::trainer {

class CsvDataset final : public Dataset {
 public:
  // As ReadCsvTable. Throws Failure, also when there is no row with features.
  explicit CsvDataset(const CsvDatasetOptions& options);

  int64_t size() const override { return columns_.size(0); }
  // float32 [B, encoding().width()]; classes int64 [B] or numbers float32 [B, 1].
  Batch Get(std::span<const int64_t> indices) const override;
  DataShape shape() const override;
  std::vector<std::string> Notes() const override { return notes_; }
  bool in_memory() const override { return true; }
  // data.json, as DescribeTable has it.
  std::map<std::string, std::string> ModelFiles() const override {
    return {{"data.json", description_}};
  }
  const CsvEncoding& encoding() const { return encoding_; }

 private:
  void NoteCategories();
  at::Tensor Expanded(const at::Tensor& columns) const;

  CsvEncoding encoding_;
  bool has_categories_ = false;
  std::string description_;
  std::vector<std::string> notes_;
  // float32 [rows, features]: of a category its place, -1 where there is none.
  at::Tensor columns_;
  at::Tensor targets_;
};

}  // namespace ddprun::trainer
