// Between two steps: report, evaluate, decide, save, in this order.
#pragma once

#include <functional>
#include <optional>

#include "trainer/loop/checkpointing.h"
#include "trainer/loop/evaluations.h"
#include "trainer/loop/recovery.h"
#include "trainer/loop/run_state.h"
#include "trainer/loop/step_reports.h"
#include "trainer/loop/step_watch.h"
#include "trainer/report/metrics_file.h"

namespace ddprun::trainer {

// Methods are collectives, unless said otherwise. One thread.
class BetweenSteps {
 public:
  BetweenSteps(RunState& run,
               StepReports& reports,
               Checkpointing& checkpoints,
               StepWatch& watch,
               Recovery& recovery,
               Evaluations& evaluations)
      : run_(run),
        reports_(reports),
        checkpoints_(checkpoints),
        watch_(watch),
        recovery_(recovery),
        evaluations_(evaluations) {}

  // See Trainer. No collectives.
  void StopWhen(std::function<bool()> asked) { stop_asked_ = std::move(asked); }
  void EvaluateFirst() { owes_evaluation_ = true; }
  void ReportMissed(const WrittenSteps& written, const Observers& observers) const;

  // Call it before the first step of this start. Does the evaluation that an earlier start or a
  // lost rank has not finished. Returns, like the next two methods, whether the run stops here.
  bool Begin();
  bool AfterStep(const StepResult& result);
  // Ends the given-up step after RunState::step: restores the buffers, and saves.
  bool GiveUpStep();
  // If lost ranks are replaced, sums the step's losses and votes in its last collective before the
  // update. Afterwards either all ranks update, or none does.
  void SumBeforeUpdate(const StepResult& result);
  // Begins to save the state. `evaluation_due` is the argument of RunText().
  void Save(bool evaluation_due = false);
  // Waits for the running save and reports it. No collective.
  void FinishSave();

  // Names the state that all ranks share but no checkpoint has. No collective.
  void NameUnsaved(StateVisitor& visitor);

 private:
  bool Decide();
  bool EvaluateModel();
  void WaitForSave();
  Votes OwnVotes() const;
  bool WantsStop() const { return stop_asked_ && stop_asked_(); }

  RunState& run_;
  StepReports& reports_;
  Checkpointing& checkpoints_;
  StepWatch& watch_;
  Recovery& recovery_;
  Evaluations& evaluations_;
  std::function<bool()> stop_asked_;
  std::optional<Votes> votes_;    // of all ranks; nullopt: ranks did not meet in the last step
  bool owes_evaluation_ = false;  // of the step from which the run resumed
};

}  // namespace ddprun::trainer
