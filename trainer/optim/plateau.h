// Reduces the learning rate when evaluations no longer improve (reduce_lr_on_plateau).
#pragma once

#include <cstdint>
#include <limits>

#include <ddprun/state.h>

namespace ddprun::trainer {

// With the meaning and the defaults of torch.optim.lr_scheduler.ReduceLROnPlateau.
struct PlateauOptions {
  bool on = false;
  bool higher_is_better = false;
  double factor = 0.1;
  int64_t patience = 10;    // evaluations
  double threshold = 1e-4;  // share of the best value
  int64_t cooldown = 0;     // evaluations
  double smallest = 0;      // learning rate / peak learning rate
};

// Counts like ReduceLROnPlateau with threshold_mode "rel". One thread.
class Plateau {
 public:
  explicit Plateau(const PlateauOptions& options)
      : options_(options),
        best_(options.higher_is_better ? -std::numeric_limits<double>::infinity()
                                       : std::numeric_limits<double>::infinity()) {}

  // Returns learning rate / peak learning rate.
  double factor() const { return factor_; }
  // Notes the value of an evaluation. Returns whether the factor falls.
  bool Note(double value);

  void NameState(StateVisitor& visitor);

 private:
  bool Improves(double value) const;

  const PlateauOptions options_;
  double factor_ = 1;
  double best_;
  int64_t missed_ = 0;   // evaluations since the last improvement
  int64_t waiting_ = 0;  // evaluations left of the cooldown
};

}  // namespace ddprun::trainer
