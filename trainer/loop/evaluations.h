// The evaluations of a run: their state, and what the model is while they run.
#pragma once

#include "trainer/loop/run_state.h"

namespace ddprun::trainer {

// One thread.
class Evaluations {
 public:
  explicit Evaluations(RunState& run) : run_(run) {}

  // Returns whether the model is to be evaluated after RunState::step; 0 is before the first step.
  bool IsDue() const;
  // Returns whether the model is to be evaluated before the next step. `by_checkpoint` means that
  // the checkpoint from which the run goes on was saved before its evaluation.
  bool IsOwed(bool by_checkpoint) const;
  // Returns whether an evaluation has begun and not ended. A rank that replaces a lost one begins
  // with it.
  bool is_running() const { return running_; }
  const EvalReport& last() const { return last_; }

  // Call them before and after an evaluation; End() is a collective. A rank that replaces a lost
  // one in between has the state of another rank, so that it may call Begin() again.
  void Begin();
  void End();
  // Reports the evaluation after RunState::step, and lowers the learning rate if it is time.
  void Note(EvalReport report);

  // Gives the model the averages of its weights, or its weights again. Changes nothing if it has
  // them, or if the job keeps no averages. A collective.
  void ShowAverages(bool wanted);

  // See BetweenSteps.
  void NameUnsaved(StateVisitor& visitor);

 private:
  void LowerLearningRate();

  RunState& run_;
  bool running_ = false;
  bool shows_averages_ = false;
  EvalReport last_;
};

}  // namespace ddprun::trainer
