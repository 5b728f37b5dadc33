// The predictions of a model as lines of text.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::trainer {

enum class PredictionFormat { kJsonLines, kCsv };

// Writes the outputs of batches, a line for each sample. Scores of classes become the likeliest
// class and the probability of each class; other outputs are the predicted numbers.
class PredictionText {
 public:
  // `labels` are names of the classes; a class without one has its number. `of_classes` means that
  // outputs [B, classes] are scores. `files`: if not empty, the file of each sample, in order.
  PredictionText(PredictionFormat format,
                 std::vector<std::string> labels,
                 bool of_classes,
                 std::vector<std::string> files);

  // Returns the lines of the next samples. Before the first ones, CSV has a header. REQUIRES:
  // `outputs` have equal sizes in every call, except for the first dimension.
  std::string Next(const at::Tensor& outputs);

 private:
  void NameColumns(int64_t width, bool classes);
  std::string Fields(const float* numbers, bool classes) const;

  const PredictionFormat format_;
  std::vector<std::string> labels_;
  const bool of_classes_;
  const std::vector<std::string> files_;
  std::vector<std::string> columns_;  // of the numbers, as text of the format; empty: not known yet
  int64_t done_ = 0;                  // samples
};

}  // namespace ddprun::trainer
