// Dynamic loss scaling for float16, with the numbers of torch.amp.GradScaler.
#pragma once

#include <cstdint>

#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// What the loss is multiplied by before backward, so that small gradients do not become zero in
// float16: as large as it can be without gradients that are infinite. One thread; the same on all
// ranks, as long as all are told the same.
class LossScaler {
 public:
  struct Options {
    double init_scale = 65536;
    int64_t growth_interval = 2000;  // steps without overflow, after which the scale doubles
  };

  explicit LossScaler(const Options& options)
      : growth_interval_(options.growth_interval), scale_(static_cast<float>(options.init_scale)) {}

  double scale() const { return scale_; }
  // Steps whose gradients were not finite, and which have therefore changed nothing.
  int64_t skipped() const { return skipped_; }
  // After each step; halves the scale after one that overflowed.
  void Update(bool overflowed);
  void NameState(StateVisitor& visitor);

 private:
  const int64_t growth_interval_;
  float scale_;
  int64_t good_steps_ = 0;  // since the scale has changed, or a step was skipped
  int64_t skipped_ = 0;
};

}  // namespace ddprun::trainer
