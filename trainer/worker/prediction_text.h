// The predictions of a model as lines of text.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include <ddprun/dataset.h>

namespace ddprun::trainer {

enum class PredictionFormat { kJsonLines, kCsv };

// Writes the outputs of batches, a line for each sample. Scores of classes become the likeliest
// class and the probability of each class; other outputs become the predicted numbers, in the unit
// of the data.
class PredictionText {
 public:
  // `shape` is that of the training data: outputs [B, classes] are scores if it has classes, and a
  // class without a label has its number. `files`: if not empty, the file of each sample, in order.
  PredictionText(PredictionFormat format, const DataShape& shape, std::vector<std::string> files);

  // Returns the lines of the next samples. Before the first ones, CSV has a header. REQUIRES:
  // `outputs` have equal sizes in every call, except for the first dimension.
  std::string Next(const at::Tensor& outputs);

 private:
  void NameColumns(int64_t width, bool classes);
  std::string Fields(const double* numbers, bool classes) const;
  bool rescales() const { return shape_.target_deviation != 1 || shape_.target_mean != 0; }

  const PredictionFormat format_;
  const DataShape shape_;
  std::vector<std::string> labels_;
  const std::vector<std::string> files_;
  std::vector<std::string> columns_;  // of the numbers, as text of the format; empty: not known yet
  int64_t done_ = 0;                  // samples
};

}  // namespace ddprun::trainer
