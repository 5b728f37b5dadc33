// The training loop: one object per rank and run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ddprun/sampler.h>
#include "base/log.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/data/batch_mover.h"
#include "trainer/job/job.h"
#include "trainer/loop/between_steps.h"
#include "trainer/loop/checkpointing.h"
#include "trainer/loop/evaluations.h"
#include "trainer/loop/recovery.h"
#include "trainer/loop/run_state.h"
#include "trainer/loop/state_hasher.h"
#include "trainer/loop/step_graph.h"
#include "trainer/loop/step_part.h"
#include "trainer/loop/step_reports.h"
#include "trainer/loop/step_watch.h"
#include "trainer/loop/step_window.h"
#include "trainer/models/model.h"
#include "trainer/optim/loss_scaler.h"
#include "trainer/optim/schedule.h"
#include "trainer/report/metrics_file.h"
#include "trainer/report/observer.h"
#include "trainer/strategies/kinds.h"

namespace ddprun::trainer {

// Used by one thread. If there is a process group, every method is a collective.
class Trainer {
 public:
  // `job` must outlive it; `plan` is PlanFor(job, world size); `recorder` may be nullptr.
  Trainer(const Job& job,
          const StepPlan& plan,
          const Mesh& mesh,
          std::shared_ptr<FlightRecorder> recorder,
          const Log& log);
  ~Trainer();

  // Makes the model with its weights, and the strategy. `joins` and `kinds` are arguments of
  // BuildStrategy(). Throws Failure.
  void Build(bool joins = false, std::span<const StrategyKind> kinds = StrategyKinds());

  // Loads the state of the checkpoint. Call it on all ranks, before Fit(). Throws FailureOfAllRanks
  // if the state does not fit, and Failure if it cannot be read. Returns what Load() does.
  bool Restore(const Checkpoint& checkpoint);
  // Restores a checkpoint that only rank 0 can read: rank 0 loads and broadcasts it. Other ranks
  // pass nullptr. REQUIRES: all ranks have equal state (fact::kOwnState).
  void RestoreFromRankZero(const Checkpoint* checkpoint);
  void EvaluateFirst() { between_.EvaluateFirst(); }  // in Fit(), because of OwesEvaluation()
  void SaveTo(const CheckpointPlace& place, std::optional<RankPart> part) {
    checkpoints_.SaveTo(place, part);
  }

  // From now on, if a rank is killed, the others repeat the step or evaluation with the process
  // that replaces it, which calls JoinAsReplacement() after Build(), and neither Restore() nor
  // SaveTo().
  void ReplaceLostRanks(bool replaces = true) { recovery_.Enable(replaces); }
  void JoinAsReplacement();
  Checkpointing& checkpoints() { return checkpoints_; }
  // Reports the last step and evaluation if the lost rank 0 died before it wrote them. `written` is
  // what metrics.jsonl has.
  void ReportMissed(const WrittenSteps& written, const Observers& observers) const {
    between_.ReportMissed(written, observers);
  }

  // In both, `asked` must not throw or wait. Stops after a step if it returns true on any rank.
  void StopWhen(std::function<bool()> asked) { between_.StopWhen(std::move(asked)); }
  // It returns the time to the end. Gives up a step that does not fit into it, and saves before it.
  void StopWithin(std::function<StopGrace()> asked) { watch_.Ask(std::move(asked)); }

  // Calls the part in every step. On all ranks, before Fit(); `part` must outlive it.
  void AddPart(StepPart& part) { parts_.push_back(&part); }

  // Trains, with validation as configured, until the run ends or stops. If it has ended, rank 0 has
  // the whole model. `observers` is nullptr on all ranks but 0. Throws Failure.
  void Fit(const Observers* observers);

  // Throws Failure if a rank is gone.
  void WaitForAllRanks() { run_.WaitForAllRanks(); }

  // REQUIRES, like Fit(): Build() was called.
  Model& model() { return *run_.model; }
  const BuildNotes& notes() const { return notes_; }
  int64_t step() const { return run_.step; }              // optimizer steps done
  bool stopped() const { return stopped_; }               // before the last step
  bool gave_up_step() const { return watch_.gave_up(); }  // the one after step()
  const StepPlan& plan() const { return run_.plan; }
  const Mesh& mesh() const { return run_.mesh; }

 private:
  void RunEpoch(int64_t epoch);
  void NameState(StateVisitor& visitor);
  StepResult TrainStep(const std::vector<Batch>& micro_batches);
  double TotalWeight(const std::vector<Batch>& micro_batches);
  at::Tensor WeightedLoss(Model& model, const Batch& batch, double total, StepSums& sums);
  void Update(StepResult& result);  // with a loss scale, only if the gradients are finite
  bool LaunchStep(const Step& step, const Batch& batch, double total, StepResult& result);

  std::unique_ptr<StepGraph> graph_;  // before the model, which is made on its stream
  RunState run_;
  Checkpointing checkpoints_;
  StepReports reports_;
  StepWatch watch_;
  Recovery recovery_;
  Evaluations evaluations_;
  BetweenSteps between_;
  DistributedSampler sampler_;
  const ScheduleOptions schedule_;
  const BatchMover mover_;
  StepWindow window_;
  BuildNotes notes_;
  std::optional<LossScaler> scaler_;  // of float16
  std::optional<StateHasher> hasher_;
  std::vector<StepPart*> parts_ = {&checkpoints_};
  SamplerState position_;  // after RunState::step
  bool stopped_ = false;
};

}  // namespace ddprun::trainer
