#include "trainer/report/eval_report.h"

namespace ddprun::trainer {

std::vector<ClassScores> ScoresByClass(const ConfusionMatrix& confusion) {
  const auto quotient = [](int64_t a, int64_t b) {
    return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
  };
  std::vector<ClassScores> scores;
  for (size_t one = 0; one < confusion.size(); ++one) {
    int64_t actual = 0;
    int64_t predicted = 0;
    for (size_t other = 0; other < confusion.size(); ++other) {
      actual += confusion.At(one, other);
      predicted += confusion.At(other, one);
    }
    const int64_t hits = confusion.At(one, one);
    scores.push_back({.precision = quotient(hits, predicted),
                      .recall = quotient(hits, actual),
                      .f1 = quotient(2 * hits, predicted + actual),
                      .samples = actual});
  }
  return scores;
}

}  // namespace ddprun::trainer
