// The result of a pass over validation or test data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::trainer {

// How often samples of one class were taken for another. Empty: not counted.
struct ConfusionMatrix {
  // Returns the number of classes.
  size_t size() const { return labels.size(); }
  int64_t At(size_t actual, size_t predicted) const { return counts[actual * size() + predicted]; }

  std::vector<std::string> labels = {};  // the names of the classes, or their numbers
  std::vector<int64_t> counts = {};      // a row for each actual class, a column for each predicted
};

// The scores of one class, as scikit-learn's classification_report gives them. A quotient by 0 is
// 0.
struct ClassScores {
  double precision = 0;
  double recall = 0;
  double f1 = 0;
  int64_t samples = 0;  // whose class it is
};

std::vector<ClassScores> ScoresByClass(const ConfusionMatrix& confusion);

struct EvalReport {
  int64_t step = 0;
  double epoch = 0;
  double loss = 0;
  int64_t samples = 0;  // every sample counted once
  double seconds = 0;
  std::vector<std::pair<std::string, double>> metrics = {};  // {"accuracy", 0.97}
  ConfusionMatrix confusion = {};
};

}  // namespace ddprun::trainer
