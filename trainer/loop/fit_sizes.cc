#include "trainer/loop/fit_sizes.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "base/failure.h"

namespace ddprun::trainer {

namespace {

constexpr char kHint[] = "Change the model section, or train on other data (data.format).";

Failure SizesDoNotFit(const std::string& what, const std::string& hint = kHint) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "DATA DOES NOT FIT THE MODEL",
                       .where = "",
                       .what = what,
                       .hint = hint,
                       .page = "data-does-not-fit"});
}

int64_t Product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

int64_t OutputsFor(const DataShape& data) {
  return data.classes > 0 ? data.classes : Product(data.target);
}

void FitImageModel(const DataShape& data, ModelOptions& model) {
  if (data.input.size() != 3) {
    throw SizesDoNotFit("model.type \"" + model.type +
                        "\" takes images, but a sample of the data has " +
                        std::to_string(data.input.size()) +
                        " dimensions where channels, height and width were expected.");
  }
  model.image = data.input;
  model.num_labels = OutputsFor(data);
}

// "[4, 16, 3]": the sizes with the data's first and last ones.
std::string Fitting(const std::vector<int64_t>& sizes, int64_t in, int64_t out) {
  std::string text = "[" + std::to_string(in);
  for (size_t i = 1; i + 1 < sizes.size(); ++i) text += ", " + std::to_string(sizes[i]);
  return text + ", " + std::to_string(out) + "]";
}

void FitMlp(const DataShape& data, const ModelOptions& model) {
  const int64_t in = Product(data.input);
  const int64_t out = OutputsFor(data);
  const auto& sizes = model.layer_sizes;
  if (sizes.size() < 2 || (sizes.front() == in && sizes.back() == out)) return;
  throw SizesDoNotFit(
      "model.layer_sizes goes from " + std::to_string(sizes.front()) + " to " +
          std::to_string(sizes.back()) + " values, but a sample of the data has " +
          std::to_string(in) + " values, and " + std::to_string(out) +
          (data.classes > 0 ? " classes" : " numbers to predict") + ".",
      "Set model.layer_sizes to " + Fitting(sizes, in, out) + "." +
          (sizes.back() == 1 && out > 1 ? " Or, if the data's target is a number and no "
                                          "class, set data.target_type to \"number\"."
                                        : ""));
}

}  // namespace

void FitSizesToData(const DataShape& data, ModelOptions& model) {
  // A data set that does not say what its samples are like is found out by the first batch.
  if (data.input.empty()) return;
  if (model.type == "linear") {
    model.layer_sizes = {Product(data.input), OutputsFor(data)};
    model.activation = "none";
  } else if (model.type == "mlp") {
    FitMlp(data, model);
  } else if (model.type == "cnn" || model.type.starts_with("resnet")) {
    FitImageModel(data, model);
  }
}

}  // namespace ddprun::trainer
