// Tables of numbers with a class or a number to predict, all in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/bad_rows.h"
#include "trainer/data/dataset.h"

namespace ddprun::trainer {

// What validation data takes over from the training data.
struct CsvEncoding {
  std::vector<std::string> features;  // column names, in the order of the inputs
  std::vector<std::string> labels;    // of classes
  std::vector<double> mean;           // of each feature; over the fields that are not missing
  std::vector<double> deviation;      // 1 for a constant feature
};

struct CsvDatasetOptions {
  enum class Missing { kError, kSkip, kMean };

  std::vector<std::string> patterns = {};
  char delimiter = ',';
  std::string target = {};                 // column
  std::vector<std::string> features = {};  // columns; empty: all others
  bool target_is_class = true;             // else a number
  std::vector<std::string> labels = {};    // classes in order; empty: those of the data, sorted
  Missing missing = Missing::kError;       // empty fields, NA, NaN, null, ?
  bool standardize = false;
  bool skip_bad_rows = false;
  const CsvEncoding* encoding = nullptr;  // of the training data; else found out
};

class CsvDataset final : public Dataset {
 public:
  // Every file begins with a header; the columns may stand in another order in each. Throws
  // Failure.
  explicit CsvDataset(const CsvDatasetOptions& options);

  int64_t size() const override { return inputs_.size(0); }
  // float32 [B, features]; classes int64 [B] or numbers float32 [B, 1].
  Batch Get(std::span<const int64_t> indices) const override;
  DataShape shape() const override;
  std::vector<std::string> Notes() const override { return notes_; }
  bool in_memory() const override { return true; }
  const CsvEncoding& encoding() const { return encoding_; }

 private:
  CsvEncoding encoding_;
  std::vector<std::string> notes_;
  at::Tensor inputs_;
  at::Tensor targets_;
};

}  // namespace ddprun::trainer
