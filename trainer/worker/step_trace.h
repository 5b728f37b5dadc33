// Traces some steps on all ranks (report.trace_steps).
#pragma once

#include <cstdint>
#include <span>

#include <ddprun/mesh.h>
#include "trainer/loop/step_part.h"

namespace ddprun::trainer {

// Logs the spans of the steps `first` to `last`. After step `last` the observers of rank 0 get the
// spans of all ranks. One thread.
class StepTrace final : public StepPart {
 public:
  StepTrace(const Mesh& mesh, int64_t first, int64_t last)
      : mesh_(mesh), first_(first), last_(last) {}

  void BeforeStep(const Step& step) override;
  // A collective after step `last`. If a rank is lost in it, there is no trace.
  void AfterUpdate(const Step& step) override;

 private:
  void Report(const Observers* observers) const;

  const Mesh mesh_;
  const int64_t first_;
  const int64_t last_;
};

// When a rank came to meetings of all ranks and when it left them, in ns of its own clock. No rank
// leaves a meeting before all have come.
struct MeetingTimes {
  std::span<const int64_t> came;
  std::span<const int64_t> left;
};

// Returns the time to add to `own` clock to have `first`'s. The error is at most the time that
// the two ranks spent in the shortest meeting, on average. REQUIRES: both are of the same meetings,
// at least one.
int64_t ClockOffset(const MeetingTimes& first, const MeetingTimes& own);

}  // namespace ddprun::trainer
