// SEAM: a feature that takes part in every step and decides nothing about it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/report/observer.h"
#include "trainer/strategies/strategy.h"

namespace ddprun::trainer {

struct Step {
  int64_t number;  // the first is 1
  Strategy& strategy;
  const Observers* observers;  // nullptr on all ranks but 0
};

// The loop calls all parts at each place of a step, in this order. All ranks have the same parts,
// so a method may be a collective. It may throw Failure. If a rank is lost, the step is repeated
// from BeforeStep() on. One thread.
class StepPart {
 public:
  virtual ~StepPart() = default;
  virtual void BeforeStep(const Step& /*step*/) {}
  // Comes before the forward pass of each micro-batch, in a pipeline of each stage on this rank. If
  // a device's graph replays the step, neither this method nor AfterGradients() is called.
  virtual void BeforeMicroBatch(const Step& /*step*/, size_t /*micro_batch*/) {}
  // The gradients are averaged and have no loss scale, but are not clipped yet.
  virtual void AfterGradients(const Step& /*step*/) {}
  virtual void BeforeUpdate(const Step& /*step*/) {}
  virtual void AfterUpdate(const Step& /*step*/) {}  // also if the update was skipped
  // Names, between two steps, the state on which the part's later calls depend.
  virtual void NameState(StateVisitor& /*visitor*/) {}
};

}  // namespace ddprun::trainer
