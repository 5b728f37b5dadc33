#include "trainer/worker/prediction_text.h"

#include <ATen/ops/softmax.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <nlohmann/json.hpp>

namespace ddprun::trainer {

namespace {

// Returns the shortest text that is read as the same number.
template <typename T>
std::string NumberText(T number, PredictionFormat format) {
  // JSON has no NaN and no infinity.
  if (format == PredictionFormat::kJsonLines && !std::isfinite(number)) return "null";
  std::array<char, 32> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

std::string Quoted(const std::string& text, PredictionFormat format) {
  if (format == PredictionFormat::kJsonLines) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

PredictionText::PredictionText(PredictionFormat format,
                               const DataShape& shape,
                               std::vector<std::string> files)
    : format_(format), shape_(shape), labels_(shape.labels), files_(std::move(files)) {}

void PredictionText::NameColumns(int64_t width, bool classes) {
  const bool csv = format_ == PredictionFormat::kCsv;
  for (int64_t i = std::ssize(labels_); i < width; ++i) labels_.push_back(std::to_string(i));
  for (int64_t i = 0; i < width; ++i) {
    if (classes) {
      columns_.push_back(Quoted((csv ? "probability " : "") + labels_[i], format_));
    } else {
      columns_.push_back(width == 1 ? "value" : "value " + std::to_string(i));
    }
  }
}

std::string PredictionText::Fields(const double* numbers, bool classes) const {
  const bool csv = format_ == PredictionFormat::kCsv;
  const auto width = std::ssize(columns_);
  std::string text;
  if (classes) {
    const auto likeliest = std::max_element(numbers, numbers + width) - numbers;
    const std::string label = Quoted(labels_[likeliest], format_);
    text = csv ? label + "," : "\"class\": " + label + ", \"probabilities\": {";
  } else if (!csv) {
    text = width == 1 ? "\"value\": " : "\"values\": [";
  }
  for (int64_t i = 0; i < width; ++i) {
    if (i > 0) text += csv ? "," : ", ";
    if (classes && !csv) text += columns_[i] + ": ";
    // The model's own numbers are float32; rescaled ones may be too large for it.
    text += rescales() ? NumberText(numbers[i], format_)
                       : NumberText(static_cast<float>(numbers[i]), format_);
  }
  if (csv) return text;
  return text + (classes ? "}" : width == 1 ? "" : "]");
}

std::string PredictionText::Next(const at::Tensor& outputs) {
  const bool csv = format_ == PredictionFormat::kCsv;
  const bool classes = shape_.classes > 0 && outputs.dim() == 2 && outputs.size(1) > 1;
  at::Tensor numbers = outputs.to(at::kCPU, at::kFloat).reshape({outputs.size(0), -1});
  if (classes) numbers = at::softmax(numbers, 1);
  numbers = numbers.to(at::kDouble);
  if (rescales()) numbers = numbers.mul(shape_.target_deviation).add(shape_.target_mean);
  numbers = numbers.contiguous();
  std::string text;
  if (columns_.empty()) {
    NameColumns(numbers.size(1), classes);
    if (csv) {
      if (!files_.empty()) text += "file,";
      if (classes) text += "class,";
      for (size_t i = 0; i < columns_.size(); ++i) text += (i > 0 ? "," : "") + columns_[i];
      text += '\n';
    }
  }
  const auto* row = numbers.const_data_ptr<double>();
  for (int64_t i = 0; i < numbers.size(0); ++i, ++done_, row += columns_.size()) {
    std::string file = files_.empty() ? "" : Quoted(files_[done_], format_);
    if (!file.empty()) file = csv ? file + "," : "\"file\": " + file + ", ";
    const std::string fields = file + Fields(row, classes);
    text += csv ? fields + "\n" : "{" + fields + "}\n";
  }
  return text;
}

}  // namespace ddprun::trainer
