// Compares, between ranks, the time that each spends on a step without waits for the others.
#pragma once

#include <cstdint>

#include <ddprun/mesh.h>
#include "trainer/loop/step_part.h"
#include "trainer/report/rank_times_report.h"

namespace ddprun::trainer {

// Needs PhaseNotes, which come before it. Before a step whose line is written, the observers of
// rank 0 get the times of the steps since the last report. A device computes by itself, so its
// ranks compare only the phases in which the host works. One thread.
class RankTimes final : public StepPart {
 public:
  // `logging_steps` is report.logging_steps.
  RankTimes(const Mesh& mesh, int node, int64_t logging_steps)
      : mesh_(mesh), logging_steps_(logging_steps) {
    own_.node = node;
  }

  // Returns whether ranks compare their times before this step: before each whose line is written,
  // but only once in ten steps.
  static bool IsDue(int64_t step, int64_t logging_steps);

  // In some steps a collective.
  void BeforeStep(const Step& step) override;
  void AfterUpdate(const Step& step) override;

 private:
  const Mesh mesh_;
  const int64_t logging_steps_;
  bool is_warm_ = false;  // after the first step, in which memory is new and engines are chosen
  RankTimesRow own_;      // sums since the last report
};

}  // namespace ddprun::trainer
