// Dynamic loss scaling for float16, with the numbers of torch.amp.GradScaler.
#pragma once

#include <cstdint>

#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// The factor of the loss before backward, so that small gradients do not become zero in float16. It
// is as large as possible without infinite gradients. One thread; equal on all ranks if all ranks
// make equal calls.
class LossScaler {
 public:
  struct Options {
    double init_scale = 65536;
    int64_t growth_interval = 2000;  // steps without overflow after which the scale doubles
  };

  explicit LossScaler(const Options& options)
      : growth_interval_(options.growth_interval), scale_(static_cast<float>(options.init_scale)) {}

  double scale() const { return scale_; }
  // Returns the number of steps skipped because gradients were not finite.
  int64_t skipped() const { return skipped_; }
  // Decides on the update of step `step`: returns whether its gradients, whose norm this is, are
  // finite. Updates the scale. Throws FailureOfAllRanks if the scale has become too small, because
  // gradients that overflow with any scale are no numbers.
  bool Accepts(double grad_norm, int64_t step);
  // Updates the scale. If the step overflowed, halves the scale.
  void Update(bool overflowed);
  void NameState(StateVisitor& visitor);

 private:
  const int64_t growth_interval_;
  float scale_;
  int64_t good_steps_ = 0;  // since the last change of the scale or skipped step
  int64_t skipped_ = 0;
};

}  // namespace ddprun::trainer
