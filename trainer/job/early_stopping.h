// Ends a run whose evaluations no longer improve (evaluation.early_stopping_patience). Pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "trainer/config/training_config.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Counts like the EarlyStoppingCallback of transformers: an evaluation improves the metric if it is
// better than the best one by more than the threshold. The first one always does. A better one
// becomes the best in any case.
class EarlyStopping {
 public:
  EarlyStopping(const EvaluationConfig& config, bool higher_is_better)
      : patience_(config.early_stopping_patience),
        threshold_(config.early_stopping_threshold),
        sign_(higher_is_better ? 1 : -1) {}

  bool is_on() const { return patience_ > 0; }
  // Returns whether the run ends here.
  bool is_due() const { return is_on() && missed_ >= patience_; }
  int64_t patience() const { return patience_; }

  void Note(double value) {
    const bool better = sign_ * value > best_;  // false for NaN
    const bool improves = better && sign_ * value - best_ > threshold_;
    missed_ = seen_ == 0 || improves ? 0 : missed_ + 1;
    seen_ = 1;
    if (better) best_ = sign_ * value;
  }

  void NameState(StateVisitor& visitor);

 private:
  const int64_t patience_;
  const double threshold_;
  const double sign_;
  double best_ = -std::numeric_limits<double>::infinity();  // times sign_
  int64_t missed_ = 0;  // evaluations since the last improvement
  int64_t seen_ = 0;    // 1: there was an evaluation
};

}  // namespace ddprun::trainer
