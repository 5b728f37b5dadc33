// Counts of right and wrong predictions of classes, and the metrics that follow from them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/report/eval_report.h"

namespace ddprun::trainer {

// Returns 0 for a quotient by 0, as scikit-learn does.
inline double Quotient(double numerator, double denominator) {
  return denominator == 0 ? 0 : numerator / denominator;
}

struct ClassCountsOptions {
  bool by_class = false;  // if not, only Accuracy() has a value
  bool pairs = false;     // count each pair of an actual and a predicted class
};

// One thread. Definitions are scikit-learn's (1.9). With two classes, precision, recall and F1 are
// those of class 1; else they are means over the classes that occur in targets or predictions, as
// the macro F1 always is.
class ClassCounts {
 public:
  explicit ClassCounts(const ClassCountsOptions& options) : options_(options) {}

  // `predicted` and `actual`: int64 [N], below `classes`.
  void Add(const at::Tensor& predicted, const at::Tensor& actual, int64_t classes);

  bool by_class() const { return options_.by_class; }
  int64_t classes() const { return classes_; }  // 0 before the first Add()
  // Makes room for counts by class. REQUIRES: `classes` is 0 or that of Add().
  void SetClasses(int64_t classes);
  // All counts. They add up over ranks.
  std::span<int64_t> counts() { return counts_; }

  double Accuracy() const;
  double Precision() const;
  double Recall() const;
  double F1(bool macro) const;
  // Returns Gorodkin's R_K, for any number of classes.
  double MatthewsCorrelation() const;
  // `labels` are the names of the classes; if there are others than classes, they get their
  // numbers. Returns an empty matrix without options.pairs or with more than 1000 classes.
  ConfusionMatrix Confusion(std::vector<std::string> labels) const;

 private:
  // Places in counts_: two totals, three lists by class, and the pairs.
  enum List { kHits, kPredicted, kActual };
  static constexpr size_t kTargets = 0;
  static constexpr size_t kCorrect = 1;
  static constexpr size_t kLists = 2;

  bool CountsPairs() const;
  std::span<const int64_t> Of(List list) const;
  void AddBins(const at::Tensor& values, int64_t bins, size_t place);
  double MeanOf(std::span<const int64_t> numerators,
                std::span<const int64_t> denominators,
                bool macro) const;

  const ClassCountsOptions options_;
  int64_t classes_ = 0;
  std::vector<int64_t> counts_ = {0, 0};
};

}  // namespace ddprun::trainer
