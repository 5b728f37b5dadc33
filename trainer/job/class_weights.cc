#include "trainer/job/class_weights.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/text.h"

namespace ddprun::trainer {

namespace {

Failure DoNotFit(std::string what, std::string hint) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "CLASS WEIGHTS DO NOT FIT THE DATA",
                       .what = std::move(what),
                       .hint = std::move(hint),
                       .page = "class-weights"});
}

// Returns ": " and the first names; "" without names.
std::string NamesOf(std::vector<std::string> labels) {
  constexpr size_t kMost = 10;
  if (labels.empty()) return "";
  const std::string more = labels.size() > kMost ? ", ..." : "";
  labels.resize(std::min(labels.size(), kMost));
  return ": " + FormatList(labels, ", ", "\"") + more;
}

std::vector<double> Balanced(const std::vector<int64_t>& of_samples, int64_t classes) {
  std::vector<double> counts(static_cast<size_t>(classes));
  for (const int64_t one : of_samples) ++counts[one];
  const auto occur = static_cast<double>(classes - std::ranges::count(counts, 0.0));
  std::vector<double> weights;
  for (const double count : counts) {
    const auto samples = static_cast<double>(of_samples.size());
    weights.push_back(count == 0 ? 1 : samples / (occur * count));
  }
  return weights;
}

}  // namespace

void SettleClassWeights(const Dataset& train, TrainingConfig& training) {
  const bool balances = std::exchange(training.balance_classes, false);
  if (!balances && training.class_weights.empty()) return;
  const std::string key = balances ? "training.balance_classes" : "training.class_weights";
  const int64_t classes = train.shape().classes;
  if (classes == 0) {
    throw DoNotFit(key + " weighs the classes of samples, but this data has none.",
                   "Remove the key, or train on data with classes.");
  }
  if (balances) {
    const std::vector<int64_t> of_samples = train.Classes();
    if (of_samples.empty()) {
      throw DoNotFit(key + " counts the samples of each class, and this data does not say them.",
                     "Give the weights themselves: training.class_weights.");
    }
    training.class_weights = Balanced(of_samples, classes);
  } else if (std::ssize(training.class_weights) != classes) {
    throw DoNotFit("training.class_weights has " + std::to_string(training.class_weights.size()) +
                       " numbers, but the data has " + std::to_string(classes) + " classes" +
                       NamesOf(train.shape().labels) + ".",
                   "Give a weight for each class, in the order of data.labels; without that key "
                   "classes are sorted by name.");
  }
}

}  // namespace ddprun::trainer
