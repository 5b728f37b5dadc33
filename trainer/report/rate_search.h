// The result of a run with scheduler.range_test: at which learning rate the loss falls fastest.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/report/observer.h"

namespace ddprun::trainer {

// A step of the search.
struct TriedRate {
  double learning_rate = 0;
  double loss = 0;
};

struct FoundRate {
  size_t fastest = 0;    // the place of the step at which the smoothed loss falls fastest
  size_t least = 0;      // the place of the least smoothed loss
  size_t last_good = 0;  // the last place before the loss diverged
};

// Returns for each step the mean of the losses around it, a twentieth of all steps, after the
// median of five, which removes single outliers. Unlike an average of the steps before, it does not
// lag behind the learning rate.
std::vector<double> SmoothLosses(std::span<const TriedRate> tried);

// Returns nullopt if there are too few steps, or if the loss never falls. The loss diverges where
// it is not finite or, as in Lightning's lr_find, four times the least one so far. "Fastest" is by
// the logarithm of the rate.
std::optional<FoundRate> FindRate(std::span<const TriedRate> tried);

// Tells at the end of the run which learning rate to take.
class RateSearch final : public Observer {
 public:
  explicit RateSearch(Observer& told) : told_(told) {}

  void OnStep(const StepReport& report, ReportTime now) override;
  void OnEnd(const RunEnd& end, ReportTime now) override;

 private:
  Observer& told_;
  std::vector<TriedRate> tried_;
  int64_t first_step_ = 0;
};

}  // namespace ddprun::trainer
