#include "trainer/evaluation/class_counts.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <utility>

namespace ddprun::trainer {

namespace {

constexpr int64_t kMostInPairs = 1000;  // the pairs of more classes take megabytes

}  // namespace

bool ClassCounts::CountsPairs() const {
  return options_.pairs && classes_ <= kMostInPairs;
}

void ClassCounts::SetClasses(int64_t classes) {
  classes_ = classes;
  const int64_t lists = 3 * classes + (CountsPairs() ? classes * classes : 0);
  counts_.resize(kLists + static_cast<size_t>(lists));
}

void ClassCounts::Add(const at::Tensor& predicted, const at::Tensor& actual, int64_t classes) {
  const at::Tensor hits = actual.masked_select(actual.eq(predicted));
  counts_[kTargets] += actual.numel();
  counts_[kCorrect] += hits.numel();
  if (!options_.by_class) return;
  if (classes_ == 0) SetClasses(classes);
  size_t place = kLists;
  for (const at::Tensor& values : {hits, predicted, actual}) {
    AddBins(values, classes, place);
    place += static_cast<size_t>(classes);
  }
  if (CountsPairs()) AddBins(actual * classes + predicted, classes * classes, place);
}

// Counts how often each of the numbers below `bins` is among the values.
void ClassCounts::AddBins(const at::Tensor& values, int64_t bins, size_t place) {
  const at::Tensor found = at::bincount(values, /*weights=*/{}, bins).cpu();
  const auto* from = found.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < bins; ++i) counts_[place + i] += from[i];
}

std::span<const int64_t> ClassCounts::Of(List list) const {
  const auto classes = static_cast<size_t>(classes_);
  return std::span(counts_).subspan(kLists + list * classes, classes);
}

double ClassCounts::Accuracy() const {
  return Quotient(static_cast<double>(counts_[kCorrect]), static_cast<double>(counts_[kTargets]));
}

double ClassCounts::Precision() const {
  return MeanOf(Of(kHits), Of(kPredicted), /*macro=*/false);
}

double ClassCounts::Recall() const {
  return MeanOf(Of(kHits), Of(kActual), /*macro=*/false);
}

double ClassCounts::F1(bool macro) const {
  std::vector<int64_t> hits;
  std::vector<int64_t> both;
  for (size_t i = 0; i < static_cast<size_t>(classes_); ++i) {
    hits.push_back(2 * Of(kHits)[i]);
    both.push_back(Of(kPredicted)[i] + Of(kActual)[i]);
  }
  return MeanOf(hits, both, macro);
}

// Returns the quotient of class 1 if there are two classes and not `macro`; else the mean over the
// classes that occur.
double ClassCounts::MeanOf(std::span<const int64_t> numerators,
                           std::span<const int64_t> denominators,
                           bool macro) const {
  const auto of_class = [&](size_t i) {
    return Quotient(static_cast<double>(numerators[i]), static_cast<double>(denominators[i]));
  };
  if (classes_ == 2 && !macro) return of_class(1);
  double sum = 0;
  double present = 0;
  for (size_t i = 0; i < numerators.size(); ++i) {
    if (Of(kPredicted)[i] + Of(kActual)[i] == 0) continue;
    ++present;
    sum += of_class(i);
  }
  return Quotient(sum, present);
}

double ClassCounts::MatthewsCorrelation() const {
  double both = 0;
  double predicted = 0;
  double actual = 0;
  for (size_t i = 0; i < static_cast<size_t>(classes_); ++i) {
    const auto p = static_cast<double>(Of(kPredicted)[i]);
    const auto a = static_cast<double>(Of(kActual)[i]);
    both += p * a;
    predicted += p * p;
    actual += a * a;
  }
  const auto all = static_cast<double>(counts_[kTargets]);
  const double covariance = static_cast<double>(counts_[kCorrect]) * all - both;
  return Quotient(covariance, std::sqrt((all * all - predicted) * (all * all - actual)));
}

ConfusionMatrix ClassCounts::Confusion(std::vector<std::string> labels) const {
  if (!CountsPairs()) return {};
  const auto classes = static_cast<size_t>(classes_);
  if (labels.size() != classes) {
    labels.clear();
    for (size_t i = 0; i < classes; ++i) labels.push_back(std::to_string(i));
  }
  const std::span<const int64_t> pairs = std::span(counts_).subspan(kLists + 3 * classes);
  return {.labels = std::move(labels), .counts = {pairs.begin(), pairs.end()}};
}

}  // namespace ddprun::trainer
